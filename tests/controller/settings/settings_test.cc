// Tests the options in force: those of the configuration, overridden by policies.
#include "controller/settings/settings.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

IntentById Policy(const std::string& name, const PolicyValue& value) {
  return {{name, {.reason = "", .actor = "", .since = {}, .until = std::nullopt, .value = value}}};
}

TEST(Settings, AreThoseOfTheConfigurationAtFirst) {
  const Settings settings({.moves_per_start = 7});
  EXPECT_EQ(settings.now().moves_per_start, 7U);
  EXPECT_EQ(settings.configured().moves_per_start, 7U);
}

TEST(Settings, PoliciesApplyUntilTheyAreRemoved) {
  Settings settings({.moves_per_start = 7});
  const ControllerOptions& now = settings.now();  // stays valid
  settings.Apply(Policy("moves_per_start", 0));
  EXPECT_EQ(now.moves_per_start, 0U);
  EXPECT_EQ(settings.configured().moves_per_start, 7U);
  settings.Apply(Policy("limit_rates", RateLimits::kOn));  // instead of those before
  EXPECT_EQ(now.moves_per_start, 7U);
  EXPECT_EQ(now.limit_rates, RateLimits::kOn);
  settings.Apply({});
  EXPECT_EQ(now.limit_rates, RateLimits::kAutomatic);
}

TEST(Settings, AReloadedConfigurationTakesEffectWithTheNextApply) {
  Settings settings({.moves_per_start = 7});
  settings.Apply(Policy("moves_per_start", 0));
  settings.Reload({.moves_per_start = 9, .plan_ahead = false});
  EXPECT_TRUE(settings.now().plan_ahead);
  settings.Apply(Policy("moves_per_start", 0));
  EXPECT_EQ(settings.now().moves_per_start, 0U);
  EXPECT_FALSE(settings.now().plan_ahead);
  settings.Apply({});
  EXPECT_EQ(settings.now().moves_per_start, 9U);
}

TEST(Settings, ReloadTakesOnlyFieldsThatNeedNoRestart) {
  Settings settings(
      {.heartbeat = {.interval = 1s}, .lease = 1min, .verification = {.interval = 1s}});
  ControllerOptions read{.instance = 5,
                         .heartbeat = {.interval = 2s},
                         .lease = 2min,
                         .verification = {.interval = 2s},
                         .algorithm = Algorithm::kGreedy,
                         .max_flows_per_agent = 1};
  read.agent_limits.bytes_per_second = 123;
  read.observes = true;
  settings.Reload(read);
  settings.Apply({});
  const ControllerOptions& now = settings.now();
  EXPECT_EQ(now.lease, 2min);
  EXPECT_EQ(now.verification.interval, 2s);
  EXPECT_EQ(now.agent_limits.bytes_per_second, 123U);
  EXPECT_TRUE(now.observes);
  EXPECT_EQ(now.algorithm, Algorithm::kGreedy);
  EXPECT_EQ(now.heartbeat.interval, 1s);
  EXPECT_EQ(now.instance, 0U);
  EXPECT_EQ(now.max_flows_per_agent, ControllerOptions{}.max_flows_per_agent);
}

}  // namespace
}  // namespace espalier::controller
