// Policies and weights, as text and as options.
#include "controller/settings/policies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace espalier::controller {
namespace {

Intent Saying(const std::string& value) {
  return {.reason = "", .actor = "", .since = {}, .until = std::nullopt, .detail = value};
}

TEST(Policies, AreReadAsTheyAreWritten) {
  ControllerOptions other{.algorithm = Algorithm::kGreedy,
                          .moves_per_start = 3,
                          .moved_bytes_per_start = 65'536,
                          .limit_rates = true,
                          .plan_ahead = false};
  ControllerOptions options;
  for (const std::string_view name : PolicyNames()) {
    EXPECT_NE(PolicyValue(options, name), PolicyValue(other, name)) << name;
    ASSERT_TRUE(SetPolicy(options, name, PolicyValue(other, name))) << name;
    EXPECT_EQ(PolicyValue(options, name), PolicyValue(other, name)) << name;
  }
  EXPECT_EQ(options.algorithm, Algorithm::kGreedy);
  EXPECT_EQ(options.moves_per_start, 3U);
  EXPECT_EQ(options.moved_bytes_per_start, 65'536);
  EXPECT_TRUE(options.limit_rates);
  EXPECT_FALSE(options.plan_ahead);
}

TEST(Policies, TakeTheEndsOfTheirRanges) {
  ControllerOptions options;
  ASSERT_TRUE(SetPolicy(options, "moves_per_start", "0"));
  ASSERT_TRUE(SetPolicy(options, "moved_bytes_per_start", "0"));
  EXPECT_EQ(options.moves_per_start, 0U);
  EXPECT_EQ(options.moved_bytes_per_start, 0);
  ASSERT_TRUE(SetPolicy(options, "moves_per_start", "4294967295"));
  ASSERT_TRUE(SetPolicy(options, "moved_bytes_per_start", "9223372036854775807"));
  EXPECT_EQ(options.moves_per_start, 4'294'967'295U);
  EXPECT_EQ(options.moved_bytes_per_start, std::numeric_limits<std::int64_t>::max());
}

TEST(Policies, SayWhatTheyTake) {
  struct Case {
    std::string_view name;
    std::string_view value;
    std::string_view message;
  };
  const ControllerOptions before;
  for (const auto& [name, value, message] : std::vector<Case>{
           {"algorithm", "best", "algorithm: \"best\" (it is optimal or greedy)"},
           {"limit_rates", "1", "limit_rates: \"1\" (it is true or false)"},
           {"plan_ahead", "True", "plan_ahead: \"True\" (it is true or false)"},
           {"moves_per_start", "-1", "moves_per_start: \"-1\" (it is a number of flows from 0)"},
           {"moves_per_start", "4294967296",
            "moves_per_start: \"4294967296\" (it is a number of flows from 0)"},
           {"moves_per_start", "", "moves_per_start: \"\" (it is a number of flows from 0)"},
           {"moved_bytes_per_start", "-1",
            "moved_bytes_per_start: \"-1\" (it is a number of bytes from 0)"},
           {"moved_bytes_per_start", "8 MB",
            "moved_bytes_per_start: \"8 MB\" (it is a number of bytes from 0)"}}) {
    ControllerOptions options;
    const Result<void> refused = SetPolicy(options, name, value);
    ASSERT_FALSE(refused) << message;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().message, message);
    EXPECT_EQ(PolicyValue(options, name), PolicyValue(before, name));
  }
}

TEST(Policies, NameThoseThatThereAre) {
  ControllerOptions options;
  const Result<void> refused = SetPolicy(options, "lease", "1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(refused.error().message,
            "there is no policy \"lease\" (there are: algorithm, moves_per_start, "
            "moved_bytes_per_start, limit_rates, plan_ahead)");
}

TEST(Policies, HoldInsteadOfTheConfigurationWhereTheyMakeSense) {
  const ControllerOptions options = WithPolicies({.moves_per_start = 7, .plan_ahead = true},
                                                 {{"plan_ahead", Saying("false")},
                                                  {"moves_per_start", Saying("many")},
                                                  {"of another version", Saying("1")}});
  EXPECT_FALSE(options.plan_ahead);
  EXPECT_EQ(options.moves_per_start, 7U);
}

TEST(Weights, AreOneWhereNothingWasSaid) {
  const std::vector<std::string> jobs = {"", "a", "b", "c"};
  EXPECT_TRUE(WeightsOf(jobs, {}).empty());
  EXPECT_TRUE(WeightsOf(jobs, {{"d", Saying("9")}}).empty());
  EXPECT_TRUE(WeightsOf(jobs, {{"a", Saying("nonsense")}}).empty());
  EXPECT_EQ(WeightsOf(jobs, {{"b", Saying("9")}, {"d", Saying("8")}}),
            (std::vector<std::uint32_t>{1, 1, 9, 1}));
}

}  // namespace
}  // namespace espalier::controller
