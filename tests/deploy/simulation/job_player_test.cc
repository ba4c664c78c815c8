#include "deploy/simulation/job_player.h"

#include <gtest/gtest.h>

#include "common/fabric/builders.h"
#include "deploy/simulation/scenario.h"

namespace espalier::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBytes = 125'000'000;  // 10 ms at 100 Gbit/s

ClusterOptions Options() {
  Scenario scenario;
  scenario.fabric = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2});
  ClusterOptions options;
  options.fabric = FabricOf(scenario, 1);
  return options;
}

TEST(JobPlayer, KeepsToThePeriodAndClosesItsConnections) {
  Cluster cluster(Options());
  PlayedJob job{.id = "A", .start = 100ms, .period = 50ms, .iterations = 4};
  job.phases = {{.compute = 5ms, .bursts = {{0, 2, kBytes}}}};
  JobPlayer player(cluster, {job}, 1);
  player.Begin();
  cluster.world().RunFor(99ms);
  EXPECT_TRUE(player.Flows().empty());
  cluster.world().RunFor(56ms + 2 * 50ms);  // 5 ms after the begin of the fourth iteration's wait
  EXPECT_EQ(player.run(0).communication.size(), 3U);
  EXPECT_EQ(player.Flows().size(), 1U);
  EXPECT_FALSE(player.IsOver());
  cluster.world().RunFor(50ms);
  EXPECT_TRUE(player.IsOver());
  EXPECT_TRUE(player.Flows().empty());
  for (const Duration time : player.run(0).communication) {
    EXPECT_NEAR(SecondsOf(time), 0.01, 1e-6);
  }
}

TEST(JobPlayer, WorksWithoutAPause) {
  Cluster cluster(Options());
  PlayedJob job{.id = "A", .iterations = 3};
  job.phases = {{.bursts = {{0, 2, kBytes}}}, {.bursts = {{2, 0, kBytes}}}};
  JobPlayer player(cluster, {job}, 1);
  player.Begin();
  cluster.world().RunFor(61ms);
  ASSERT_TRUE(player.IsOver());
  for (const Duration time : player.run(0).communication) {
    EXPECT_NEAR(SecondsOf(time), 0.02, 1e-6);
  }
}

TEST(IdealCommunication, IsThatOfTheBusiestNicOfEachPhase) {
  const auto topology = *fabric::Topology::Build(Options().fabric);
  PlayedJob job;
  job.phases = {{.bursts = {{0, 2, kBytes}, {0, 3, kBytes}}},  // h0 sends twice
                {.bursts = {{0, 2, kBytes}, {1, 2, kBytes}, {3, 2, kBytes}}},
                {.bursts = {{0, 2, kBytes}, {2, 0, kBytes}}}};
  EXPECT_EQ(IdealCommunication(topology, ListNics(topology), job), 60ms);
}

}  // namespace
}  // namespace espalier::simulation
