#include "common/os/scratch_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "tests/temporary_folder.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

TEST(ScratchFolder, IsRemovedWithAllThatIsInIt) {
  std::string path;
  {
    auto folder = ScratchFolder::Make("test");
    ASSERT_TRUE(folder) << folder.error().message;
    path = folder->path();
    EXPECT_TRUE(fs::path(path).filename().string().starts_with("espalier-test-"));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    fs::create_directory(path + "/inner");
    std::ofstream(path + "/inner/file") << "text";
    const ScratchFolder moved = std::move(*folder);
    EXPECT_EQ(moved.path(), path);
    EXPECT_NE(ScratchFolder::Make("test")->path(), path);
    EXPECT_TRUE(fs::exists(path + "/inner/file"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(ScratchFolder, SaysWhyThereIsNone) {
  const TemporaryFolder temporary;
  const char* const before = getenv("TMPDIR");
  const std::optional<std::string> restored =
      before == nullptr ? std::nullopt : std::optional<std::string>(before);
  ASSERT_EQ(setenv("TMPDIR", (temporary.path() + "/none").c_str(), 1), 0);
  const auto folder = ScratchFolder::Make("test");
  restored ? setenv("TMPDIR", restored->c_str(), 1) : unsetenv("TMPDIR");
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("No such file or directory"), std::string::npos)
      << folder.error().message;
}

}  // namespace
}  // namespace espalier
