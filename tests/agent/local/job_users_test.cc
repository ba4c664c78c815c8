#include "agent/local/job_users.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/agent/manual_loop.h"

namespace espalier::agent {
namespace {

using namespace std::chrono_literals;

class JobUsersTest : public testing::Test {
 protected:
  JobUsersTest()
      : users_(loop_, {}, [this](const std::string& name) {
          asked_.push_back(name);
          return name == "alice" ? std::optional<uid_t>(1'000) : std::nullopt;
        }) {
    users_.OnAnswer([this](const std::string& user) { answered_.push_back(user); });
  }

  ManualLoop loop_;
  std::vector<std::string> asked_;
  std::vector<std::string> answered_;
  JobUsers users_;
};

TEST_F(JobUsersTest, ANumberNeedsNoLookUp) {
  const JobUsers::Found found = users_.Find("4711");
  EXPECT_FALSE(found.is_pending);
  EXPECT_EQ(found.number, uid_t{4'711});
  loop_.Advance(1s);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(JobUsersTest, ANameIsLookedUpOnceInAWhile) {
  EXPECT_TRUE(users_.Find("alice").is_pending);
  EXPECT_TRUE(users_.Find("alice").is_pending);
  loop_.Advance(0ms);
  EXPECT_EQ(answered_, std::vector<std::string>{"alice"});
  EXPECT_EQ(users_.Find("alice").number, uid_t{1'000});
  loop_.Advance(JobUsers::kKept - 1ms);
  EXPECT_EQ(users_.Find("alice").number, uid_t{1'000});
  EXPECT_EQ(asked_.size(), 1U);
  loop_.Advance(1ms);
  EXPECT_TRUE(users_.Find("alice").is_pending);
}

TEST_F(JobUsersTest, AnUnknownNameIsLookedUpAgainSoon) {
  EXPECT_TRUE(users_.Find("bob").is_pending);
  loop_.Advance(0ms);
  const JobUsers::Found none = users_.Find("bob");
  EXPECT_FALSE(none.is_pending);
  EXPECT_EQ(none.number, std::nullopt);
  loop_.Advance(JobUsers::kAskAgain);
  EXPECT_TRUE(users_.Find("bob").is_pending);
  loop_.Advance(0ms);
  EXPECT_EQ(asked_, (std::vector<std::string>{"bob", "bob"}));
}

TEST_F(JobUsersTest, ForgetsNamesBeyondTheLimit) {
  for (int i = 0; i < 3'000; ++i) {
    users_.Find("user" + std::to_string(i));
    loop_.Advance(0ms);
  }
  EXPECT_FALSE(users_.Find("user2999").is_pending);
  EXPECT_TRUE(users_.Find("user0").is_pending);
}

TEST(JobUsers, AsksTheSystem) {
  EXPECT_EQ(JobUsers::AskSystem("root"), uid_t{0});
  EXPECT_EQ(JobUsers::AskSystem("no-such-user-here"), std::nullopt);
}

}  // namespace
}  // namespace espalier::agent
