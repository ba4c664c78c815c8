#include "controller/offline/simulation/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/fabric/builders.h"
#include "controller/offline/simulation/assignment_router.h"
#include "controller/routing/assigner.h"

namespace espalier::offline {
namespace {

using controller::Assigner;
using controller::Assignment;
using controller::Commodity;
using controller::FabricView;

using fabric::NodeId;
using fabric::Topology;
using testing::DoubleNear;
using testing::HasSubstr;

Topology MakeFabric(int spines, int leaves, int hosts) {
  return *Topology::Build(
      *fabric::BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = hosts}));
}

NodeId Node(const Topology& topology, const std::string& id) { return *topology.FindNode(id); }

Exchange RingOf(const Topology& topology, const std::vector<std::string>& hosts,
                std::int64_t round_bytes) {
  std::vector<NodeId> nics;
  for (const std::string& host : hosts) nics.push_back(Node(topology, host));
  return MakeRing(nics, round_bytes * static_cast<std::int64_t>(hosts.size()));
}

// Puts every subflow of every flow on spine 0.
Assignment OneSpine(std::span<const Commodity> commodities, std::span<const std::uint32_t>) {
  Assignment assignment;
  assignment.first.push_back(0);
  for (const Commodity& commodity : commodities) {
    assignment.first.push_back(assignment.first.back() + commodity.subflows);
  }
  assignment.paths.assign(assignment.first.back(), 0);
  return assignment;
}

// A simulation on a fabric with the greedy or a given assigner.
class Bench {
 public:
  explicit Bench(Topology topology)
      : topology_(std::move(topology)), paths_(topology_), view_(topology_, paths_) {}

  const Topology& topology() const { return topology_; }

  Result<SimulationOutcome> Run(std::vector<Job> jobs, std::uint32_t subflows = 1,
                                AssignmentRouter::Assign assign = {},
                                const SimulationOptions& options = {}) {
    const auto workload = Workload::Build(topology_, std::move(jobs));
    if (!workload) return tl::unexpected<Error>(workload.error());
    Assigner assigner(view_);
    if (!assign) {
      assign = [&assigner](std::span<const Commodity> commodities, auto) {
        return assigner.Greedy(commodities);
      };
    }
    AssignmentRouter router(*workload, view_, subflows, assign);
    return Simulate(*workload, router, options);
  }

 private:
  Topology topology_;
  fabric::PathTable paths_;
  FabricView view_;
};

constexpr std::int64_t kSecondOfBytes = 12'500'000'000;  // at 100 Gbit/s

TEST(Simulator, TimesOneRingByHand) {
  Bench bench(MakeFabric(2, 2, 2));
  const auto outcome = bench.Run(
      {{.id = "j",
        .epochs = 3,
        .phases = {
            {.compute_ns = 1'000'000'000,
             .exchanges = {RingOf(bench.topology(), {"h0", "h1", "h2", "h3"}, kSecondOfBytes)}}}}});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  const JobOutcome& job = outcome->jobs[0];
  // Six rounds of a second each, and 1 ns before each.
  EXPECT_THAT(job.epoch_seconds, testing::Each(DoubleNear(6 + 6e-9, 1e-12)));
  EXPECT_EQ(job.epoch_seconds.size(), 3U);
  EXPECT_EQ(job.flows, 3 * 6 * 4);
  EXPECT_DOUBLE_EQ(job.mean_completion_seconds, 1);
  EXPECT_DOUBLE_EQ(job.mean_throughput_gbps, 100);
  EXPECT_EQ(outcome->assignments, 3);  // where an epoch ends, nobody else communicates
  EXPECT_THAT(outcome->end_seconds, DoubleNear(20, 1e-6));
}

TEST(Simulator, ARingIsAsSlowAsItsSlowestFlow) {
  Bench bench(MakeFabric(2, 2, 2));
  // h0 and h1 both send to leaf 1 over spine 0; the reverse direction is shared as well.
  const auto outcome = bench.Run(
      {{.id = "j",
        .epochs = 1,
        .phases = {{.exchanges = {RingOf(bench.topology(), {"h0", "h2"}, kSecondOfBytes),
                                  RingOf(bench.topology(), {"h1", "h3"}, kSecondOfBytes)}}}}},
      1, OneSpine);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->jobs[0].allreduce_seconds, DoubleNear(4, 1e-6));
  EXPECT_EQ(outcome->max_link_load, 2);
}

TEST(Simulator, SplitFlowsEndWithTheirLastPart) {
  // Three flows over two spines: 2 and 1, or halves: 1.5 each.
  Bench bench(MakeFabric(2, 2, 3));
  std::vector<Exchange> rings;
  for (const auto& hosts : {std::vector<std::string>{"h0", "h3"}, {"h1", "h4"}, {"h2", "h5"}}) {
    rings.push_back(RingOf(bench.topology(), hosts, kSecondOfBytes));
  }
  const std::vector<Job> jobs = {{.id = "j", .epochs = 1, .phases = {{.exchanges = rings}}}};
  const auto whole = bench.Run(jobs);
  const auto halves = bench.Run(jobs, 2);
  ASSERT_TRUE(whole.has_value() && halves.has_value());
  EXPECT_THAT(whole->jobs[0].allreduce_seconds, DoubleNear(4, 1e-6));
  EXPECT_THAT(halves->jobs[0].allreduce_seconds, DoubleNear(3, 1e-6));
  EXPECT_EQ(halves->max_link_load, 1.5);
}

TEST(Simulator, SubflowsOnOnePathAreOnePart) {
  Bench bench(MakeFabric(1, 2, 1));
  const auto outcome =
      bench.Run({{.id = "j",
                  .epochs = 1,
                  .phases = {{.exchanges = {RingOf(bench.topology(), {"h0", "h1"}, 1000)}}}}},
                4);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->max_link_load, 1);
  EXPECT_THAT(outcome->jobs[0].allreduce_seconds, DoubleNear(162e-9, 1e-12));
}

TEST(Simulator, FlowsOfOneLeafNeedNoSpine) {
  Topology topology = MakeFabric(1, 2, 2);
  topology.SetLinkState(*topology.FindLink("leaf0--spine0"), fabric::LinkState::kDown);
  Bench bench(std::move(topology));
  const auto outcome =
      bench.Run({{.id = "j",
                  .epochs = 1,
                  .phases = {{.exchanges = {RingOf(bench.topology(), {"h0", "h1"}, 1250)}}}}});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  EXPECT_THAT(outcome->jobs[0].allreduce_seconds, DoubleNear(202e-9, 1e-12));
  EXPECT_EQ(outcome->max_link_load, 0);
}

TEST(Simulator, NamesTheFlowWithoutAPath) {
  Topology topology = MakeFabric(1, 2, 2);
  topology.SetLinkState(*topology.FindLink("leaf0--spine0"), fabric::LinkState::kDown);
  Bench bench(std::move(topology));
  const auto outcome =
      bench.Run({{.id = "j",
                  .epochs = 1,
                  .phases = {{.exchanges = {RingOf(bench.topology(), {"h0", "h2"}, 1250)}}}}});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(outcome.error().message, HasSubstr("job j: no path leads from h0 to h2"));
}

TEST(Simulator, JobsMeetAndPathsAreComputedAtStartsAndEnds) {
  // One spine: while both communicate, each has half of it.
  Bench bench(MakeFabric(1, 2, 2));
  const Job first{
      .id = "a",
      .epochs = 1,
      .phases = {{.exchanges = {RingOf(bench.topology(), {"h0", "h2"}, kSecondOfBytes)}}}};
  Job second = first;
  second.id = "b";
  second.start_ns = 1'000'000'000;
  second.phases[0].exchanges = {RingOf(bench.topology(), {"h1", "h3"}, kSecondOfBytes)};
  const auto outcome = bench.Run({first, second});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->jobs[0].allreduce_seconds, DoubleNear(3, 1e-6));
  EXPECT_THAT(outcome->jobs[1].allreduce_seconds, DoubleNear(3, 1e-6));
  EXPECT_EQ(outcome->assignments, 3);  // two starts, and the end that leaves one behind
  EXPECT_EQ(outcome->assigned_flows, 2 + 4 + 2);
}

TEST(Simulator, IdealHasNoContentionBetweenSwitches) {
  Bench bench(MakeFabric(1, 2, 2));
  const auto outcome = bench.Run(
      {{.id = "j",
        .epochs = 1,
        .phases = {{.exchanges = {RingOf(bench.topology(), {"h0", "h2"}, kSecondOfBytes),
                                  RingOf(bench.topology(), {"h1", "h3"}, kSecondOfBytes)}}}}},
      1, OneSpine, {.is_ideal = true});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->jobs[0].allreduce_seconds, DoubleNear(2, 1e-6));
}

TEST(Simulator, RefusesInvalidWorkloads) {
  Bench bench(MakeFabric(1, 2, 2));
  const Exchange ring = RingOf(bench.topology(), {"h0", "h2"}, 10);
  Exchange lonely = ring;
  lonely.flows.clear();
  const NodeId leaf = Node(bench.topology(), "leaf0");
  const Exchange of_switches{.flows = {{leaf, leaf}, {leaf, leaf}}, .round_bytes = 1};
  const std::pair<std::vector<Job>, const char*> cases[] = {
      {{}, "no jobs"},
      {{{.id = "j"}}, "job j: has no phases"},
      {{{.id = "j", .phases = {{.exchanges = {lonely}}}}}, "no flows"},
      {{{.id = "j", .phases = {{.exchanges = {RingOf(bench.topology(), {"h0", "h2"}, 0)}}}}},
       "no bytes"},
      {{{.id = "j", .epochs = 0, .phases = {{.exchanges = {ring}}}}}, "no epochs"},
      {{{.id = "j", .start_ns = -1, .phases = {{.exchanges = {ring}}}}}, "negative"},
      {{{.id = "j", .phases = {{.exchanges = {of_switches}}}}}, "leaf0 is not a NIC on a switch"},
  };
  for (const auto& [jobs, message] : cases) {
    const auto outcome = bench.Run(jobs);
    ASSERT_FALSE(outcome.has_value()) << message;
    EXPECT_THAT(outcome.error().message, HasSubstr(message));
  }
}

TEST(Simulator, StopsAtItsLimitAndWhenCancelled) {
  Bench bench(MakeFabric(1, 2, 2));
  const std::vector<Job> jobs = {
      {.id = "j",
       .epochs = 5000,
       .phases = {{.exchanges = {RingOf(bench.topology(), {"h0", "h2"}, 10)}}}}};
  const auto limited = bench.Run(jobs, 1, {}, {.max_events = 100});
  ASSERT_FALSE(limited.has_value());
  EXPECT_THAT(limited.error().message, HasSubstr("more than 100 events"));
  SimulationOptions options;
  options.is_cancelled = [] { return true; };
  const auto cancelled = bench.Run(jobs, 1, {}, options);
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().message, "interrupted");
}

}  // namespace
}  // namespace espalier::offline
