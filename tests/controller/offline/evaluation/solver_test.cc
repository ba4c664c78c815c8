#include "controller/offline/evaluation/solver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "tests/temporary_folder.h"

namespace espalier::offline {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// An environment variable that has another value as long as this lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    const char* const before = std::getenv(name);
    if (before != nullptr) before_ = before;
    had_ = before != nullptr;
    ::setenv(name, value.c_str(), 1);
  }
  ~Setting() {
    if (had_) {
      ::setenv(name_, before_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

TEST(SolveWithCbc, SolvesAnIntegerProgram) {
  // The fractional optimum is 3.5.
  const auto solution = SolveWithCbc(
      "Maximize\n obj: x + y\nSubject To\n a: 2 x + 2 y <= 7\n b: x <= 1\nGeneral\n x y\nEnd\n");
  ASSERT_TRUE(solution.has_value()) << solution.error().message;
  EXPECT_THAT(*solution, HasSubstr("Optimal"));
  EXPECT_THAT(*solution, ContainsRegex("y +[23] "));
}

TEST(SolveWithCbc, LeavesNoFileBehind) {
  const TemporaryFolder folder;
  const Setting setting("TMPDIR", folder.path());
  ASSERT_TRUE(SolveWithCbc("Minimize\n obj: x\nSubject To\n a: x >= 2\nEnd\n").has_value());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SolveWithCbc, NamesTheMissingPackageOrFolder) {
  const TemporaryFolder folder;
  {
    const Setting setting("PATH", folder.path());
    const auto solution = SolveWithCbc("End\n");
    ASSERT_FALSE(solution.has_value());
    EXPECT_EQ(solution.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(solution.error().message, HasSubstr("install coinor-cbc"));
  }
  const std::string program = folder.path() + "/cbc";
  ASSERT_EQ(std::system(("printf '#!/bin/sh\necho broken >&2\nexit 3\n' >" + program +
                         " && chmod 755 " + program)
                            .c_str()),
            0);
  const Setting setting("PATH", folder.path() + ":/bin:/usr/bin");
  const auto failed = SolveWithCbc("End\n");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kInternal);
  EXPECT_THAT(failed.error().message, HasSubstr("cbc ended with code 3: broken"));
}

}  // namespace
}  // namespace espalier::offline
