#include "controller/routing/phases/phase_assignment.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/controller/routing/phases/phase_oracle.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

const Load kOne{1, 1};
const Load kTwo{2, 1};

// Adds a job whose phases are random permutations of the leaves, `per_leaf` times.
void AddJobOfPermutations(PhaseCase& input, std::mt19937& random, std::uint32_t leaves,
                          std::span<const std::uint32_t> per_leaf, std::uint32_t spines) {
  PhasedJob job;
  for (const std::uint32_t degree : per_leaf) {
    std::vector<std::uint32_t> phase;
    for (std::uint32_t k = 0; k < degree; ++k) {
      const std::uint32_t shift = 1 + static_cast<std::uint32_t>(random() % (leaves - 1));
      for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
        phase.push_back(
            input.Add(leaf, (leaf + shift) % leaves, static_cast<std::int32_t>(random() % spines)));
      }
    }
    job.phases.push_back(std::move(phase));
  }
  input.jobs.push_back(std::move(job));
}

TEST(AssignPhases, ServesOneJobWithDisjointPhasesOptimally) {
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const std::uint32_t spines = 2 + static_cast<std::uint32_t>(seed % 7);
    const auto fabric = Fabric::LeafSpine(static_cast<int>(spines), 6);
    PhaseCase input;
    std::vector<std::uint32_t> degrees(1 + seed % 5);
    for (auto& degree : degrees) degree = 1 + static_cast<std::uint32_t>(random() % (2 * spines));
    AddJobOfPermutations(input, random, 6, degrees, spines);
    const PhaseAssignment result = input.Assign(fabric->view);
    const std::uint32_t most = *std::ranges::max_element(degrees);
    EXPECT_EQ(result.max_load, (Load{(most + spines - 1) / spines, 1}));
    EXPECT_TRUE(result.is_optimal);
    EXPECT_EQ(WorstLoad(fabric->view, input, result.paths), result.max_load);

    // Once there, nothing moves.
    for (std::size_t i = 0; i < input.flows.size(); ++i) input.flows[i].path = result.paths[i];
    const PhaseAssignment again = input.Assign(fabric->view);
    EXPECT_EQ(again.paths, result.paths);
    EXPECT_EQ(again.moved, 0U);
  }
}

// The union of all flows needs three times the spines.
TEST(AssignPhases, FitsTwoJobsOnExactlyEnoughSpines) {
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const std::uint32_t first = 1 + static_cast<std::uint32_t>(seed % 4);
    const std::uint32_t second = 1 + static_cast<std::uint32_t>(seed / 4 % 4);
    const std::uint32_t spines = first + second;
    const auto fabric = Fabric::LeafSpine(static_cast<int>(spines), 8);
    PhaseCase input;
    AddJobOfPermutations(input, random, 8, std::vector(3, first), spines);
    AddJobOfPermutations(input, random, 8, std::vector{second, 1U, second, second}, spines);
    const PhaseAssignment result = input.Assign(fabric->view);
    EXPECT_EQ(result.max_load, kOne);
    EXPECT_TRUE(result.is_optimal);
    EXPECT_EQ(WorstLoad(fabric->view, input, result.paths), kOne);
  }
}

TEST(AssignPhases, MovesNothingIfThePresentPathsServeAllPhases) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  PhaseCase input;
  const auto a = input.Add(0, 1, 0);
  const auto b = input.Add(0, 1, 0);  // the same path, in another phase
  const auto c = input.Add(0, 2, 1);
  input.jobs = {{{{a}, {b}}}, {{{c}}}};
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.paths, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(result.moved, 0U);
  EXPECT_EQ(result.max_load, kOne);
}

TEST(AssignPhases, MovesTheOneFlowOfAnotherJobInsteadOfOnePerPhase) {
  const auto fabric = Fabric::LeafSpine(3, 4);
  PhaseCase input;
  const auto a = input.Add(0, 1, 0);
  const auto b = input.Add(0, 2, 0);
  const auto c = input.Add(0, 3, 0);
  const auto other = input.Add(0, 1, 0);
  input.jobs = {{{{a}, {b}, {c}}}, {{{other}}}};
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.max_load, kOne);
  EXPECT_EQ(result.moved, 1U);
  EXPECT_NE(result.paths[other], 0);
}

TEST(AssignPhases, KeepsUnmovableFlowsAndAvoidsThem) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  PhaseCase input;
  const auto fixed = input.Add(0, 1, 1);
  const auto a = input.Add(0, 2, 1);
  input.flows[fixed].movable = false;
  input.jobs = {{{{fixed, a}}}};
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.paths, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(result.max_load, kOne);
  EXPECT_TRUE(result.is_optimal);
}

TEST(AssignPhases, DoesNotLetUnmovableCollisionsExcuseOthers) {
  const auto fabric = Fabric::LeafSpine(2, 4);
  PhaseCase input;
  for (int i = 0; i < 3; ++i) {
    input.Add(0, 1, 0);
    input.flows.back().movable = false;
  }
  const auto a = input.Add(2, 3, 0);
  const auto b = input.Add(2, 3, 0);
  input.jobs = {{{{0, 1, 2, a, b}}}};
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.max_load, kOne);
  EXPECT_NE(result.paths[a], result.paths[b]);
}

TEST(AssignPhases, AvoidsLinksThatOthersLoad) {
  const auto fabric = Fabric::LeafSpine(3, 3);
  PhaseCase input;
  const auto a = input.Add(0, 1, 0);
  const auto b = input.Add(0, 1, 1);
  input.jobs = {{{{a, b}}}};
  input.base.assign(fabric->view.capacities().size(), 0);
  input.base[fabric->view.clos()->up[0]] = kLoadUnit;
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.paths, (std::vector<std::int32_t>{2, 1}));
  EXPECT_EQ(result.moved, 1U);
  EXPECT_EQ(result.max_load, kOne);
  EXPECT_TRUE(result.is_optimal);
}

TEST(AssignPhases, LeavesDeadLinksAndCountsOnlyMovesFromUsablePaths) {
  const auto fabric = Fabric::LeafSpine(3, 3);
  PhaseCase input;
  const auto a = input.Add(0, 1, 0);
  const auto b = input.Add(0, 2, 1);
  const auto stuck = input.Add(0, 1, 0);
  const auto local = input.Add(1, 1, 0);
  input.flows[stuck].movable = false;
  input.jobs = {{{{a, b, stuck, local}}}};
  fabric->Fail("leaf0--spine0");
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.paths, (std::vector<std::int32_t>{2, 1, 0, kNoPath}));
  EXPECT_EQ(result.moved, 0U);
  EXPECT_EQ(result.max_load, kOne);
  fabric->FailSpine(1);
  fabric->FailSpine(2);
  EXPECT_EQ(input.Assign(fabric->view).paths,
            (std::vector<std::int32_t>{kNoPath, kNoPath, 0, kNoPath}));
}

// Leaf 0 has one link left, so it cannot avoid a load of 2; leaf 3 can.
TEST(AssignPhases, SpreadsEveryLeafThoughOneIsWorseOff) {
  const auto fabric = Fabric::LeafSpine(3, 6);
  fabric->Fail("leaf0--spine1");
  fabric->Fail("leaf0--spine2");
  PhaseCase input;
  const auto a = input.Add(0, 1);
  const auto b = input.Add(0, 2);
  const auto c = input.Add(3, 4, 1);
  const auto d = input.Add(3, 5, 1);
  input.jobs = {{{{a, b}}}, {{{c, d}}}};
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.max_load, kTwo);
  EXPECT_TRUE(result.is_optimal);
  EXPECT_NE(result.paths[c], result.paths[d]);
  EXPECT_EQ(result.moved, 1U);
  EXPECT_EQ(input.Assign(fabric->view, {.every_leaf = false}).moved, 0U);
}

TEST(AssignPhases, PutsSubflowsOfAFlowOnDistinctPaths) {
  for (const std::uint32_t subflows : {2U, 4U}) {
    const auto fabric = Fabric::LeafSpine(4, 4);
    PhaseCase input;
    PhasedJob job;
    for (std::uint32_t phase = 0; phase < 3; ++phase) {
      std::vector<std::uint32_t> members;
      for (std::uint32_t leaf = 0; leaf < 4; ++leaf) {
        for (std::uint32_t i = 0; i < subflows; ++i) {
          members.push_back(input.Add(leaf, (leaf + phase + 1) % 4, 0, kLoadUnit / subflows));
          input.flows.back().group = 4 * phase + leaf;
        }
      }
      job.phases.push_back(members);
    }
    input.jobs = {job};
    const PhaseAssignment result = input.Assign(fabric->view);
    EXPECT_EQ(result.max_load, (Load{1, subflows}));
    for (std::size_t first = 0; first < input.flows.size(); first += subflows) {
      const std::set paths(result.paths.begin() + static_cast<std::ptrdiff_t>(first),
                           result.paths.begin() + static_cast<std::ptrdiff_t>(first + subflows));
      EXPECT_EQ(paths.size(), subflows);
    }
  }
}

TEST(AssignPhases, CountsFlowsInNoPhaseAlways) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  PhaseCase input;
  const auto a = input.Add(0, 1, 0);
  const auto b = input.Add(0, 1, 0);
  const auto always = input.Add(0, 2, 0);
  input.jobs = {{{{a}, {b}}}};
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.max_load, kOne);
  EXPECT_EQ(result.paths, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(result.moved, 1U);
  EXPECT_EQ(always, 2U);
}

TEST(AssignPhases, SpreadsFlowsThatAreInSeveralPhases) {
  const auto fabric = Fabric::LeafSpine(3, 4);
  PhaseCase input;
  const auto a = input.Add(0, 1, 0);
  const auto b = input.Add(0, 2, 0);
  const auto c = input.Add(0, 3, 0);
  input.jobs = {{{{a, b}, {b, c}, {a, c}, {a}}}};
  EXPECT_EQ(input.Assign(fabric->view).max_load, kOne);
  // On two spines two of them must share, although no phase has more than two flows.
  const auto small = Fabric::LeafSpine(2, 4);
  const PhaseAssignment result = input.Assign(small->view);
  EXPECT_EQ(result.max_load, kTwo);
  EXPECT_EQ(result.lower_bound, kOne);
  EXPECT_FALSE(result.is_optimal);
}

// The links carry two flows in any case when the jobs meet, but one is enough while one is alone.
TEST(AssignPhases, SpreadsPhasesThatAreAlone) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  PhaseCase input;
  const auto a = input.Add(0, 1, 0);
  const auto b = input.Add(0, 2, 0);
  const auto c = input.Add(0, 1, 1);
  const auto d = input.Add(0, 2, 1);
  input.jobs = {{{{a, b}}}, {{{c, d}}}};
  const PhaseAssignment kept = input.Assign(fabric->view, {.every_leaf = false});
  EXPECT_EQ(kept.moved, 0U);
  EXPECT_EQ(kept.max_load, kTwo);
  const PhaseAssignment result = input.Assign(fabric->view);
  EXPECT_EQ(result.max_load, kTwo);
  EXPECT_EQ(result.excess, 0);
  EXPECT_EQ(result.alone, (std::vector<Load>{kOne, kOne}));
  EXPECT_EQ(result.moved, 2U);
}

TEST(AssignPhases, TakesNoFlows) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  EXPECT_TRUE(PhaseCase().Assign(fabric->view).is_optimal);
}

}  // namespace
}  // namespace espalier::controller
