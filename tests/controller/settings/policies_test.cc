// Policies as options, and weights by job.
#include "controller/settings/policies.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace espalier::controller {
namespace {

Intent Saying(const IntentValue& value) {
  return {.reason = "", .actor = "", .since = {}, .until = std::nullopt, .value = value};
}

TEST(Policies, AreSetAsTheyAreRead) {
  const ControllerOptions other{.algorithm = Algorithm::kGreedy,
                                .shares = Shares::kEqual,
                                .moves_per_start = 3,
                                .moved_bytes_per_start = 65'536,
                                .limit_rates = RateLimits::kOn,
                                .plan_ahead = false};
  ControllerOptions options;
  for (const std::string_view name : PolicyNames()) {
    const PolicyValue value = PolicyOf(other, name);
    EXPECT_NE(PolicyOf(options, name), value) << name;
    EXPECT_EQ(ParsePolicy(name, FormatPolicy(value)).value(), value) << name;
    SetPolicy(options, name, value);
    EXPECT_EQ(PolicyOf(options, name), value) << name;
  }
  EXPECT_EQ(options.algorithm, Algorithm::kGreedy);
  EXPECT_EQ(options.moves_per_start, 3U);
  EXPECT_EQ(options.moved_bytes_per_start, 65'536);
  EXPECT_EQ(options.limit_rates, RateLimits::kOn);
  EXPECT_EQ(options.shares, Shares::kEqual);
  EXPECT_FALSE(options.plan_ahead);
}

TEST(Policies, OverrideTheConfigurationWhereTheyAreValid) {
  const ControllerOptions options =
      WithPolicies({.moves_per_start = 7, .plan_ahead = true},
                   {{"plan_ahead", Saying(false)},
                    {"moves_per_start", Saying(UnreadableValue{"many"})},
                    {"of another version", Saying(UnreadableValue{"1"})}});
  EXPECT_FALSE(options.plan_ahead);
  EXPECT_EQ(options.moves_per_start, 7U);
}

TEST(Weights, AreOneWithoutAnIntent) {
  const std::vector<std::string> jobs = {"", "a", "b", "c"};
  EXPECT_TRUE(WeightsOf(jobs, {}).empty());
  EXPECT_TRUE(WeightsOf(jobs, {{"d", Saying(JobWeight{9})}}).empty());
  EXPECT_TRUE(WeightsOf(jobs, {{"a", Saying(UnreadableValue{"nonsense"})}}).empty());
  EXPECT_EQ(WeightsOf(jobs, {{"b", Saying(JobWeight{9})}, {"d", Saying(JobWeight{8})}}),
            (std::vector<std::uint32_t>{1, 1, 9, 1}));
}

}  // namespace
}  // namespace espalier::controller
