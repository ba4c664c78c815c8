// Sources of the key of a group without a controller.
#include "collective/client/group_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/temporary_folder.h"

namespace espalier::client {
namespace {

using runtime::Medium;

constexpr const char* kNames[] = {"ESPALIER_JOB_KEY_FILE", "ESPALIER_JOB_KEY",
                                  "ESPALIER_INSECURE_GROUPS"};

class GroupKey : public testing::Test {
 protected:
  GroupKey() { Clear(); }
  ~GroupKey() override { Clear(); }
  static void Clear() {
    for (const char* name : kNames) ::unsetenv(name);
  }
  std::string WriteFile(const std::string& text, mode_t mode) const {
    std::string path = folder_.path() + "/key";
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  static Error ErrorOf(const std::string& store) {
    const auto found = FindMembership(store, Medium::kTcp);
    return found ? Error{ErrorCode::kInternal, "no error"} : found.error();
  }

  const TemporaryFolder folder_;
  const std::string digits_ = JobKey::Draw().ToText();
};

TEST_F(GroupKey, IsInAFileOrInTheEnvironment) {
  ::setenv("ESPALIER_JOB_KEY", digits_.c_str(), 1);
  EXPECT_EQ(FindMembership("tcp://10.0.0.1:1", Medium::kTcp)->key, *JobKey::Parse(digits_));
  const std::string other = JobKey::Draw().ToText();
  ::setenv("ESPALIER_JOB_KEY_FILE", WriteFile(other + "\n", 0600).c_str(), 1);
  EXPECT_EQ(FindMembership("tcp://10.0.0.1:1", Medium::kTcp)->key, *JobKey::Parse(other));
}

TEST_F(GroupKey, IsRefusedWhereItIsNoSecretOrNoKey) {
  ::setenv("ESPALIER_JOB_KEY_FILE", WriteFile(digits_, 0640).c_str(), 1);
  EXPECT_EQ(ErrorOf("tcp://10.0.0.1:1").code, ErrorCode::kPermissionDenied);
  ::setenv("ESPALIER_JOB_KEY_FILE", WriteFile("no key", 0600).c_str(), 1);
  EXPECT_EQ(ErrorOf("tcp://10.0.0.1:1").code, ErrorCode::kInvalidArgument);
  ::setenv("ESPALIER_JOB_KEY_FILE", "/no/such/file", 1);
  EXPECT_EQ(ErrorOf("tcp://10.0.0.1:1").code, ErrorCode::kUnavailable);
  ::unsetenv("ESPALIER_JOB_KEY_FILE");
  ::setenv("ESPALIER_JOB_KEY", "f00", 1);
  const Error error = ErrorOf("tcp://10.0.0.1:1");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message.find("f00"), std::string::npos);  // the error must not show the key
}

TEST_F(GroupKey, IsMadeInAFolderByWhoeverComesFirst) {
  const std::string store = folder_.path();
  std::vector<std::string> keys(8);
  std::vector<std::thread> ranks;
  for (auto& key : keys) {
    ranks.emplace_back([&] {
      const auto found = FindMembership(store, Medium::kTcp);
      key = found ? found->key->ToText() : found.error().message;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(keys, std::vector<std::string>(8, keys[0]));
  EXPECT_EQ(keys[0].size(), 64U);
  struct stat status {};
  ASSERT_EQ(::stat((store + "/job.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(GroupKey, IsNoneWhereNobodyGivesOne) {
  EXPECT_FALSE(FindMembership("tcp://10.0.0.1:1", Medium::kTcp)->key);
  EXPECT_FALSE(FindMembership(folder_.path(), Medium::kShared)->key);
  EXPECT_FALSE(FindMembership("tcp://10.0.0.1:1", Medium::kTcp)->trusts_network);
  ::setenv("ESPALIER_INSECURE_GROUPS", "1", 1);
  EXPECT_TRUE(FindMembership("tcp://10.0.0.1:1", Medium::kTcp)->trusts_network);
}

}  // namespace
}  // namespace espalier::client
