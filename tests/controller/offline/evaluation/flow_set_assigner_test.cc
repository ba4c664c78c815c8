#include "controller/offline/evaluation/flow_set_assigner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/seeds.h"

namespace espalier::offline {
namespace {

// 4 spines, 3 leaves and hosts h0 to h11, four on a leaf.
class FlowSetAssignerTest : public testing::Test {
 protected:
  void Add(int source, int destination, std::optional<std::int64_t> bytes = {}) {
    if (set_.jobs.empty()) set_.jobs = {"J"};
    set_.flows.push_back({.id = "f" + std::to_string(set_.flows.size()),
                          .source = Host(source),
                          .destination = Host(destination),
                          .bytes = bytes});
  }
  void AddRandom(std::mt19937_64& random, int count) {
    for (int i = 0; i < count; ++i) {
      const int source = static_cast<int>(random() % 12);
      Add(source, (source + 1 + static_cast<int>(random() % 11)) % 12, random() % 1'000);
    }
  }
  fabric::NodeId Host(int number) const {
    return *topology_.FindNode("h" + std::to_string(number));
  }
  void Fail(const std::string& link) {
    topology_.SetLinkState(*topology_.FindLink(link), fabric::LinkState::kDown);
  }
  AssignmentResult Assign(Algorithm algorithm, std::uint32_t split = 1, std::uint64_t seed = 0,
                          controller::Shares shares = controller::Shares::kEqual) {
    auto result = FlowSetAssigner(topology_, paths_, set_, split).Assign(algorithm, seed, shares);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return std::move(*result);
  }
  AssignmentResult Repair(const AssignmentResult& previous,
                          const FlowSetAssigner::MoveBudget& budget, std::uint32_t split = 1) {
    const auto read = ParsePreviousAssignment(FormatAssignment(previous, set_, topology_), "f");
    EXPECT_TRUE(read.has_value()) << read.error().message;
    return FlowSetAssigner(topology_, paths_, set_, split).Repair(*read, budget);
  }

  // The number of the leaf of a host.
  static int LeafOf(int host) { return host / 4; }
  // Checks states and paths by the topology alone, and that the greatest load is that of the paths.
  void ExpectSound(const AssignmentResult& result, std::uint32_t split) {
    ASSERT_EQ(result.flows.size(), set_.flows.size());
    std::map<std::uint32_t, double> loads;
    for (std::size_t i = 0; i < set_.flows.size(); ++i) {
      const AssignedFlow& flow = result.flows[i];
      EXPECT_EQ(flow.paths.empty(), flow.state != AssignmentState::kRouted);
      std::int64_t shares = 0;
      for (const AssignedPath& path : flow.paths) {
        shares += path.share;
        fabric::NodeId at = set_.flows[i].source;
        for (std::size_t hop = 0; hop < path.links.size(); ++hop) {
          const auto directed = fabric::DirectedLink::FromIndex(path.links[hop]);
          const fabric::Link& link = topology_.link(directed.link);
          EXPECT_NE(link.state, fabric::LinkState::kDown);
          EXPECT_EQ(directed.forward ? link.a : link.b, at);
          at = directed.forward ? link.b : link.a;
          if (hop > 0 && hop + 1 < path.links.size()) {
            loads[path.links[hop]] +=
                static_cast<double>(path.share) / static_cast<double>(controller::kLoadUnit);
          }
        }
        EXPECT_EQ(at, set_.flows[i].destination);
      }
      if (flow.state == AssignmentState::kRouted) {
        EXPECT_EQ(shares, controller::kLoadUnit);
        EXPECT_LE(flow.paths.size(), split);
      }
    }
    double greatest = 0;
    for (const auto& [link, load] : loads) greatest = std::max(greatest, load);
    EXPECT_NEAR(result.max_load.Value(), greatest, 1e-9);
    EXPECT_LE(result.lower_bound, result.max_load);
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 4, .leaves = 3, .hosts_per_leaf = 4}));
  fabric::PathTable paths_{topology_};
  FlowSet set_;
};

TEST_F(FlowSetAssignerTest, EveryAlgorithmGivesUsablePathsAndNoneBeatsTheProgram) {
  for (const std::uint64_t seed : SeedsToTry(1, 3)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    set_ = {};
    AddRandom(random, 12);
    const AssignmentResult least = Assign(Algorithm::kIlp);
    ExpectSound(least, 1);
    for (const Algorithm algorithm :
         {Algorithm::kGreedy, Algorithm::kOptimal, Algorithm::kAnnealing, Algorithm::kEcmp}) {
      const AssignmentResult result = Assign(algorithm, 1, seed);
      SCOPED_TRACE(result.algorithm);
      EXPECT_EQ(result.algorithm, AlgorithmName(algorithm));
      ExpectSound(result, 1);
      EXPECT_GE(result.max_load, least.max_load);
      ExpectSound(Assign(algorithm, 3, seed), 3);
    }
  }
}

// Four flows of each leaf on three spines.
TEST_F(FlowSetAssignerTest, DividesFlowsAsTheLeastLoadNeedsIt) {
  for (int leaf = 0; leaf < 3; ++leaf) Fail("leaf" + std::to_string(leaf) + "--spine1");
  for (int host = 0; host < 12; ++host) Add(host, (host + 4) % 12);
  const AssignmentResult equal = Assign(Algorithm::kOptimal, 2);
  ExpectSound(equal, 2);
  EXPECT_EQ(equal.max_load, (controller::Load{3, 2}));
  EXPECT_EQ(equal.lower_bound, (controller::Load{3, 2}));
  const AssignmentResult exact = Assign(Algorithm::kOptimal, 2, 0, controller::Shares::kExact);
  ExpectSound(exact, 2);
  EXPECT_EQ(exact.max_load, (controller::Load{4, 3}));
  EXPECT_EQ(exact.lower_bound, (controller::Load{4, 3}));
  EXPECT_EQ(exact.tiers.front().max_load, (controller::Load{4, 3}));
  EXPECT_EQ(exact.tiers.front().lower_bound, (controller::Load{4, 3}));
  EXPECT_EQ(exact.proof, controller::Proof::kDivisible);
}

TEST_F(FlowSetAssignerTest, TellsLocalAndUnroutableFlows) {
  Add(0, 1);
  Add(0, 4);
  Add(5, 0);
  Add(2, 8);
  Fail("h5--leaf1");
  for (int spine = 0; spine < 4; ++spine) Fail("leaf2--spine" + std::to_string(spine));
  const AssignmentResult result = Assign(Algorithm::kOptimal);
  EXPECT_EQ(result.flows[0].state, AssignmentState::kLocal);
  EXPECT_EQ(result.flows[1].state, AssignmentState::kRouted);
  EXPECT_EQ(result.flows[2].state, AssignmentState::kUnroutable);
  EXPECT_EQ(result.flows[3].state, AssignmentState::kUnroutable);
  EXPECT_EQ(result.Count(AssignmentState::kUnroutable), 2);
  EXPECT_EQ(result.job_rates_bps.at(0), 0) << "a job is as slow as its slowest flow";
  ExpectSound(result, 1);
}

// A flow keeps its path by ecmp whatever else is in the file, and in whatever order.
TEST_F(FlowSetAssignerTest, EcmpDependsOnTheNameAlone) {
  std::mt19937_64 random(1);
  AddRandom(random, 20);
  const AssignmentResult before = Assign(Algorithm::kEcmp, 2, 9);
  std::map<std::string, std::vector<std::vector<std::uint32_t>>> paths;
  for (std::size_t i = 0; i < set_.flows.size(); ++i) {
    for (const AssignedPath& path : before.flows[i].paths) {
      paths[set_.flows[i].id].push_back(path.links);
    }
  }
  std::shuffle(set_.flows.begin(), set_.flows.end(), random);
  set_.flows.resize(9);
  const AssignmentResult after = Assign(Algorithm::kEcmp, 2, 9);
  for (std::size_t i = 0; i < set_.flows.size(); ++i) {
    std::vector<std::vector<std::uint32_t>> now;
    for (const AssignedPath& path : after.flows[i].paths) now.push_back(path.links);
    EXPECT_EQ(now, paths[set_.flows[i].id]);
  }
}

TEST_F(FlowSetAssignerTest, RepairsNothingThatIsWhole) {
  std::mt19937_64 random(2);
  AddRandom(random, 16);
  for (const std::uint32_t split : {1U, 2U}) {
    const AssignmentResult before = Assign(Algorithm::kOptimal, split);
    const AssignmentResult after = Repair(before, {.moves = 0}, split);
    ExpectSound(after, split);
    EXPECT_EQ(after.moved_flows, 0);
    EXPECT_EQ(after.moved_bytes, 0);
    EXPECT_EQ(after.max_load, before.max_load);
  }
}

// Only the flows of the failed link move without a budget; with one, the load falls to the optimum.
TEST_F(FlowSetAssignerTest, MovesOnlyWhatIsBrokenAndWhatTheBudgetAllows) {
  for (const std::uint64_t seed : SeedsToTry(1, 10)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    topology_ = *fabric::Topology::Build(
        *fabric::BuildLeafSpine({.spines = 4, .leaves = 3, .hosts_per_leaf = 4}));
    std::mt19937_64 random(seed);
    set_ = {};
    AddRandom(random, 24);
    const AssignmentResult before = Assign(Algorithm::kEcmp, 1, seed);
    Fail("leaf0--spine" + std::to_string(random() % 4));
    std::int64_t broken = 0;
    std::int64_t broken_bytes = 0;
    for (std::size_t i = 0; i < set_.flows.size(); ++i) {
      const bool is_broken = std::ranges::any_of(before.flows[i].paths, [&](const auto& path) {
        return std::ranges::any_of(path.links, [&](std::uint32_t link) {
          const auto id = fabric::DirectedLink::FromIndex(link).link;
          return topology_.link(id).state == fabric::LinkState::kDown;
        });
      });
      broken += is_broken ? 1 : 0;
      broken_bytes += is_broken ? *set_.flows[i].bytes : 0;
    }
    const AssignmentResult kept = Repair(before, {.moves = 0});
    ExpectSound(kept, 1);
    EXPECT_EQ(kept.moved_flows, broken);
    EXPECT_EQ(kept.moved_bytes, broken_bytes);
    const AssignmentResult two = Repair(before, {.moves = 2});
    ExpectSound(two, 1);
    EXPECT_LE(two.moved_flows, broken + 2);
    EXPECT_LE(two.max_load, kept.max_load);
    const AssignmentResult all = Repair(before, {.moves = 1'000});
    ExpectSound(all, 1);
    EXPECT_EQ(all.max_load, Assign(Algorithm::kOptimal).max_load);
    EXPECT_EQ(Repair(before, {.moves = 1'000, .bytes = -1}).max_load, kept.max_load);
  }
}

// Shares that are no whole subflows now are chosen again, the others stay.
TEST_F(FlowSetAssignerTest, KeepsSharesThatFitAnotherSplit) {
  Add(0, 4, 10);
  const AssignmentResult halves = Assign(Algorithm::kOptimal, 2);
  ASSERT_EQ(halves.flows[0].paths.size(), 2U);
  const AssignmentResult quarters = Repair(halves, {.moves = 0}, 4);
  ExpectSound(quarters, 4);
  EXPECT_EQ(quarters.moved_flows, 0);
  const AssignmentResult whole = Repair(halves, {.moves = 0}, 1);
  ExpectSound(whole, 1);
  EXPECT_EQ(whole.moved_flows, 1);
}

}  // namespace
}  // namespace espalier::offline
