#include "controller/intents/steering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace espalier::controller {
namespace {

Intent Setting(std::uint32_t percent) {
  Intent intent;
  intent.value = SteeringSetting{percent};
  return intent;
}

std::set<std::string> HostsAt(std::uint32_t percent, int count = 2'000) {
  IntentById steering;
  if (percent < 100) steering["percent"] = Setting(percent);
  std::set<std::string> hosts;
  for (int i = 0; i < count; ++i) hosts.insert("gpu-" + std::to_string(i));
  const HostRanks ranks(hosts);
  const SteeringRules rules(steering, ranks);
  std::set<std::string> steered;
  for (const std::string& host : hosts) {
    if (rules.IsSteered(host, "job")) steered.insert(host);
  }
  return steered;
}

TEST(SteeringRules, OnlyAddHostsAsThePercentageGrows) {
  std::set<std::string> before;
  for (const std::uint32_t percent : {0U, 1U, 5U, 10U, 25U, 50U, 99U, 100U}) {
    const std::set<std::string> now = HostsAt(percent);
    EXPECT_TRUE(std::includes(now.begin(), now.end(), before.begin(), before.end())) << percent;
    EXPECT_EQ(now.size(), 20U * percent);
    before = now;
  }
  EXPECT_EQ(before.size(), 2'000U);
  EXPECT_TRUE(HostsAt(0).empty());
}

TEST(SteeringRules, ComeAsNearToThePercentageAsHostsAllow) {
  EXPECT_EQ(HostsAt(50, 16).size(), 8U);
  EXPECT_EQ(HostsAt(10, 16).size(), 2U);
  EXPECT_EQ(HostsAt(1, 16).size(), 0U);
  EXPECT_EQ(HostsAt(99, 3).size(), 3U);
}

TEST(SteeringRules, LetOffWinOverOnAndNamesOverThePercentage) {
  IntentById steering{{"percent", Setting(0)},
                      {"host h0", Setting(100)},
                      {"host h1", Setting(0)},
                      {"job train", Setting(100)},
                      {"job bad", Setting(0)}};
  const HostRanks ranks({"h0", "h1", "h5"});
  const SteeringRules rules(steering, ranks);
  EXPECT_FALSE(rules.IsSteered("h5", "other"));
  EXPECT_TRUE(rules.IsSteered("h0", "other"));
  EXPECT_TRUE(rules.IsSteered("h5", "train"));
  EXPECT_FALSE(rules.IsSteered("h1", "train"));
  EXPECT_FALSE(rules.IsSteered("h0", "bad"));
  EXPECT_EQ(rules.Describe(),
            "steering is on for 0 % of the hosts, and 1 host and 1 job; off for 1 host and 1 job");
  steering["all"] = Setting(0);
  EXPECT_FALSE(rules.IsSteered("h0", "train"));
  EXPECT_EQ(rules.Describe(), "steering is off: every flow takes plain ECMP");
}

TEST(SteeringRules, SteerNothingWhileTheControllerOnlyObserves) {
  const HostRanks ranks({"h0"});
  const IntentById none;
  const SteeringRules rules(none, ranks, true);
  EXPECT_TRUE(rules.observes());
  EXPECT_FALSE(rules.IsSteered("h0", "job"));
  EXPECT_EQ(
      rules.Describe(),
      "the controller only observes (mode in its configuration): every flow takes plain ECMP");
}

TEST(SteeringRules, SteerEverythingWithoutIntents) {
  const IntentById none;
  const HostRanks ranks;
  EXPECT_TRUE(SteeringRules(none, ranks).IsSteered("h0", ""));
  EXPECT_EQ(SteeringRules(none, ranks).Describe(), "");
}

}  // namespace
}  // namespace espalier::controller
