// Jobs of several phases in the simulator, against times that are computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/fabric/builders.h"
#include "controller/offline/simulation/assignment_router.h"
#include "controller/offline/simulation/simulator.h"
#include "tests/seeds.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::Commodity;
using fabric::NodeId;

// 100 Gbit/s are 12.5 bytes in a nanosecond: this many bytes take a microsecond.
constexpr std::int64_t kMicrosecond = 12'500;

// Two leaves with four hosts each, h0 to h3 and h4 to h7.
class SimulatedPhases : public testing::Test {
 protected:
  explicit SimulatedPhases(int spines = 2)
      : topology_(*fabric::Topology::Build(
            *fabric::BuildLeafSpine({.spines = spines, .leaves = 2, .hosts_per_leaf = 4}))) {}

  NodeId Host(int i) const { return *topology_.FindNode("h" + std::to_string(i)); }
  // Flows from hosts to others, in rounds of this many bytes.
  Exchange Flows(const std::vector<std::pair<int, int>>& pairs, std::int64_t bytes,
                 int rounds = 1) const {
    Exchange exchange{.flows = {}, .round_bytes = bytes, .rounds = rounds};
    for (const auto& [from, to] : pairs) exchange.flows.push_back({Host(from), Host(to)});
    return exchange;
  }
  // Every flow takes the spine that `spine_of` names by its number.
  SimulationOutcome Run(std::vector<Job> jobs,
                        const std::function<int(std::uint32_t flow)>& spine_of,
                        LiveFlows live = LiveFlows::kOpen) {
    const auto workload = Workload::Build(topology_, std::move(jobs));
    EXPECT_TRUE(workload.has_value()) << workload.error().message;
    AssignmentRouter router(
        *workload, view_, 1,
        [&](std::span<const Commodity> commodities, std::span<const std::uint32_t> flows) {
          assigned_.emplace_back(flows.begin(), flows.end());
          Assignment assignment;
          assignment.Clear(commodities);
          for (std::size_t i = 0; i < flows.size(); ++i) assignment.paths[i] = spine_of(flows[i]);
          return assignment;
        });
    auto outcome = Simulate(*workload, router, {.live_flows = live});
    EXPECT_TRUE(outcome.has_value()) << outcome.error().message;
    return *outcome;
  }

  fabric::Topology topology_;
  fabric::PathTable paths_{topology_};
  controller::FabricView view_{topology_, paths_};
  std::vector<std::vector<std::uint32_t>> assigned_;  // by assignment
};

TEST_F(SimulatedPhases, FollowOneAnotherAndTakeTheSumOfTheirTimes) {
  const Job job{
      .id = "j",
      .epochs = 2,
      .phases = {
          {.name = "a", .compute_ns = 5'000, .exchanges = {Flows({{0, 4}, {1, 5}}, kMicrosecond)}},
          {.name = "b",
           .compute_ns = 2'000,
           .exchanges = {Flows({{0, 5}}, 3 * kMicrosecond, 2), Flows({{4, 1}}, kMicrosecond)}}}};
  // The flows of phase a share spine 0: 2 us. Phase b takes two rounds of 3 us.
  const SimulationOutcome outcome = Run({job}, [](auto) { return 0; });
  const JobOutcome& result = outcome.jobs[0];
  EXPECT_THAT(result.phase_seconds,
              testing::ElementsAre(testing::DoubleEq(2.001e-6), testing::DoubleEq(6.002e-6)));
  EXPECT_THAT(result.epoch_seconds, testing::Each(testing::DoubleEq(8.003e-6)));
  EXPECT_DOUBLE_EQ(result.allreduce_seconds, 8.003e-6);
  // Computations: 2 us in each epoch, and 5 us before the second.
  EXPECT_DOUBLE_EQ(outcome.end_seconds, 2 * 10.003e-6 + 5e-6);
  EXPECT_DOUBLE_EQ(result.slowest_flow_seconds, 3e-6);
  EXPECT_DOUBLE_EQ(result.slowest_flow_gbps, 50);
  EXPECT_EQ(result.flows, 2 * (2 + 2 + 1));
  EXPECT_EQ(result.ports_changed, 0);
  EXPECT_EQ(outcome.max_link_load, 2);
}

TEST_F(SimulatedPhases, OfOneConnectionShareItsPath) {
  // The same two hosts in both phases, twice in the second.
  const Job job{.id = "j",
                .epochs = 1,
                .phases = {{.exchanges = {Flows({{0, 4}}, kMicrosecond)}},
                           {.exchanges = {Flows({{0, 4}, {0, 4}}, kMicrosecond)}}}};
  const auto workload = Workload::Build(topology_, {job});
  ASSERT_TRUE(workload.has_value());
  EXPECT_EQ(workload->flows().size(), 2U);
  EXPECT_THAT(workload->PhasesOf(0),
              testing::ElementsAre(testing::ElementsAre(0U), testing::ElementsAre(0U, 1U)));
}

TEST_F(SimulatedPhases, ConnectionsAreAssignedWhenJobsBeginAndEnd) {
  const auto job = [&](const char* id, int first, std::int64_t start) {
    return Job{.id = id,
               .start_ns = start,
               .epochs = 3,
               .phases = {{.exchanges = {Flows({{first, 4}}, kMicrosecond)}},
                          {.exchanges = {Flows({{first, 5}}, kMicrosecond)}}}};
  };
  const SimulationOutcome outcome = Run(
      {job("a", 0, 0), job("b", 1, 2'000)}, [](auto) { return 0; }, LiveFlows::kConnections);
  using Flows = std::vector<std::uint32_t>;
  EXPECT_EQ(assigned_, (std::vector<Flows>{{0, 1}, {0, 1, 2, 3}, {2, 3}}));
  EXPECT_EQ(outcome.assigned_flows, 2 + 4 + 2);
  // Though four connections are on spine 0, no more than two flows send at once.
  EXPECT_EQ(outcome.max_link_load, 2);
}

TEST_F(SimulatedPhases, CountsPortsThatChange) {
  const Job job{
      .id = "j", .epochs = 3, .phases = {{.exchanges = {Flows({{0, 4}, {1, 5}}, kMicrosecond)}}}};
  // Flow 1 changes its spine in each epoch after the first.
  const SimulationOutcome outcome = Run({job}, [&](std::uint32_t flow) {
    return flow == 1 ? static_cast<int>(assigned_.size() % 2) : 0;
  });
  EXPECT_EQ(outcome.jobs[0].ports_changed, 2);
}

// The end of one job assigns the flow of the other, which has ended in the same nanosecond, again.
TEST_F(SimulatedPhases, OfJobsThatEndTogetherAreNotMixedUp) {
  std::vector<Job> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back({.id = std::to_string(i),
                    .epochs = 4,
                    .phases = {{.exchanges = {Flows({{i, 4 + i}}, kMicrosecond)}},
                               {.exchanges = {Flows({{4 + i, i}}, 2 * kMicrosecond)}}}});
  }
  const SimulationOutcome outcome =
      Run(jobs, [&](std::uint32_t) { return static_cast<int>(assigned_.size() % 2); });
  for (const JobOutcome& job : outcome.jobs) {
    // Three flows share a spine, in both phases.
    EXPECT_THAT(job.epoch_seconds, testing::Each(testing::DoubleNear(9.002e-6, 1e-13)));
    EXPECT_EQ(job.flows, 8);
  }
}

class SimulatedPhasesOnOneSpine : public SimulatedPhases {
 protected:
  SimulatedPhasesOnOneSpine() : SimulatedPhases(1) {}
};

// In each phase k flows leave one leaf for different hosts of the other, over one link: each gets
// 1/k of it, so a round takes k times as long as one flow alone, and a nanosecond before it.
TEST_F(SimulatedPhasesOnOneSpine, TakeExactlyWhatTheirLinkAllows) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Job job{.id = "j", .epochs = 1 + static_cast<int>(random.Below(3)), .phases = {}};
    std::int64_t nanoseconds = 0;
    const auto phases = 1 + random.Below(4);
    for (std::uint64_t p = 0; p < phases; ++p) {
      const int flows = 1 + static_cast<int>(random.Below(4));
      const int rounds = 1 + static_cast<int>(random.Below(3));
      const int shift = static_cast<int>(random.Below(4));
      const auto microseconds = 1 + static_cast<std::int64_t>(random.Below(9));
      std::vector<std::pair<int, int>> pairs;
      for (int i = 0; i < flows; ++i) pairs.emplace_back(i, 4 + (i + shift) % 4);
      job.phases.push_back({.compute_ns = static_cast<std::int64_t>(random.Below(9'999)),
                            .exchanges = {Flows(pairs, microseconds * kMicrosecond, rounds)}});
      nanoseconds += rounds * (flows * microseconds * 1'000 + 1);
    }
    const SimulationOutcome outcome = Run({job}, [](auto) { return 0; });
    EXPECT_THAT(outcome.jobs[0].epoch_seconds,
                testing::Each(testing::DoubleNear(1e-9 * static_cast<double>(nanoseconds), 1e-15)));
  }
}

}  // namespace
}  // namespace espalier::offline
