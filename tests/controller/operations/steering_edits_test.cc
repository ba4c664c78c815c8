#include "controller/operations/steering_edits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kNow{std::chrono::hours(1'000)};

class SteeringEdits : public testing::Test {
 protected:
  // Applies a change that must succeed.
  void Do(bool on, const std::vector<std::string>& hosts = {},
          const std::vector<std::string>& jobs = {}, std::optional<std::uint64_t> percent = {}) {
    const auto changed = Try(on, hosts, jobs, percent);
    ASSERT_TRUE(changed.has_value()) << changed.error().message;
    intents_ = *changed;
  }
  Result<Intents> Try(bool on, const std::vector<std::string>& hosts = {},
                      const std::vector<std::string>& jobs = {},
                      std::optional<std::uint64_t> percent = {},
                      const OperatorRequest& request = {}) {
    return ChangeSteeringIntent(
        intents_, topology_, {.hosts = hosts, .jobs = jobs, .percent = percent}, on, request, kNow);
  }
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, intent] : intents_.steering) keys.push_back(key);
    return keys;
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  Intents intents_;
};

TEST_F(SteeringEdits, KeepWhatElseIsSetWhileTheSwitchIsOff) {
  Do(true, {}, {}, 25);
  Do(true, {"h0"});
  Do(false, {}, {"bad"});
  Do(false);
  EXPECT_EQ(Keys(), (std::vector<std::string>{"all", "host h0", "job bad", "percent"}));
  EXPECT_EQ(Try(true, {"h1"}).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(Try(false, {}, {}, 10).error().code, ErrorCode::kFailedPrecondition);
  Do(true);
  EXPECT_EQ(Keys(), (std::vector<std::string>{"host h0", "job bad", "percent"}));
  const Result<Intents> again = Try(true);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_NE(again.error().message.find("25 %"), std::string::npos) << again.error().message;
}

TEST_F(SteeringEdits, LetOnWithAPercentageReplaceTheSwitch) {
  Do(false);
  Do(true, {}, {}, 0);
  EXPECT_EQ(Keys(), std::vector<std::string>{"percent"});
  Do(true, {"h0"});
  Do(true, {}, {}, 100);
  EXPECT_TRUE(Keys().empty()) << "no host needs to be on by name";
}

TEST_F(SteeringEdits, CountAPercentageThatIsOffFromTheOtherEnd) {
  Do(false, {}, {}, 30);
  const HostRanks ranks;
  EXPECT_EQ(SteeringRules(intents_.steering, ranks).percent(), 70U);
}

TEST_F(SteeringEdits, TakeBackWhatIsOffWithoutAPercentage) {
  Do(false, {"h0", "h1"});
  Do(true, {"h0"});
  EXPECT_EQ(Keys(), std::vector<std::string>{"host h1"});
  EXPECT_EQ(Try(true, {"h0"}).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(SteeringEdits, RefuseWhatHasNoMeaning) {
  const auto code = [&](const Result<Intents>& result) { return result.error().code; };
  EXPECT_EQ(code(Try(false, {"nosuch"})), ErrorCode::kNotFound);
  EXPECT_EQ(code(Try(false, {"leaf0"})), ErrorCode::kNotFound) << "a switch is no host";
  EXPECT_EQ(code(Try(false, {}, {""})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Try(false, {"h0"}, {}, 10)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Try(true, {}, {}, 101)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Try(true, {}, {}, ~std::uint64_t{0})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Try(true, {}, {}, {}, {.until = kNow + 1h})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Try(false, {}, {}, 10, {.until = kNow + 1h})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Try(false, {}, {}, {}, {.until = kNow})), ErrorCode::kInvalidArgument);
}

TEST_F(SteeringEdits, ChangeOnlyTheEndOrReasonOfWhatHolds) {
  intents_ = *Try(false, {}, {}, {}, {.actor = "anna", .reason = "storm"});
  const auto later = Try(false, {}, {}, {}, {.actor = "bert", .until = kNow + 1h});
  ASSERT_TRUE(later.has_value()) << later.error().message;
  const Intent& intent = later->steering.at("all");
  EXPECT_EQ(intent.actor, "anna");
  EXPECT_EQ(intent.reason, "storm");
  EXPECT_EQ(intent.until, kNow + 1h);
  EXPECT_EQ(Try(false, {}, {}, {}, {.actor = "bert"}).error().code, ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace espalier::controller
