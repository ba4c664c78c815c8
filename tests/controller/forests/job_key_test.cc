// Tests the key by which the ranks of a job authenticate each other.
#include <gtest/gtest.h>

#include <string>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class JobKeyTest : public testing::Test {
 protected:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP
    options.verification.interval = {};
    return options;
  }
  JobKeyTest() : cluster_({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}, Options()) {
    cluster_.ConnectAll();
  }
  void Start(const std::string& name, int ranks) {
    JobSpec spec{.name = name, .ranks = {}};
    for (int i = 0; i < ranks; ++i) spec.ranks.push_back("h" + std::to_string(i));
    const auto started = cluster_.StartJob(spec);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    cluster_.Settle();
  }
  const wire::RankPlan& PlanOf(const std::string& name, int rank) {
    return cluster_.host(rank).plans.at({name, static_cast<std::uint32_t>(rank)});
  }

  Cluster cluster_;
};

TEST_F(JobKeyTest, IsOfAllRanksOfAJobAndOfNoOther) {
  Start("train", 4);
  Start("short", 3);
  const std::string key = PlanOf("train", 0).job_key;
  EXPECT_EQ(key.size(), 32U);
  EXPECT_NE(key, PlanOf("short", 0).job_key);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(PlanOf("train", rank).job_key, key);
}

TEST_F(JobKeyTest, ComesWithTheAddressesOfAllRanks) {
  Start("train", 4);
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(PlanOf("train", rank).rank_addresses.size(), 4U);
    for (int other = 0; other < 4; ++other) {
      EXPECT_EQ(PlanOf("train", rank).rank_addresses[static_cast<std::size_t>(other)],
                cluster_.Address(other));
    }
  }
}

// Running programs keep the key.
TEST_F(JobKeyTest, SurvivesARestartOfTheControllerButNotOfTheJob) {
  Start("train", 4);
  const std::string key = PlanOf("train", 0).job_key;
  cluster_.RestartController();
  cluster_.ConnectAll();
  cluster_.Advance(3s);
  EXPECT_EQ(PlanOf("train", 0).job_key, key);
  ASSERT_TRUE(cluster_.StopJob("train").has_value());
  cluster_.Advance(1s);
  Start("train", 4);
  EXPECT_NE(PlanOf("train", 0).job_key, key);
}

}  // namespace
}  // namespace espalier::controller
