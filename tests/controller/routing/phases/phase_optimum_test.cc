// Compares AssignPhases with all assignments of small random problems.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/controller/routing/phases/phase_oracle.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

struct Kind {
  std::uint32_t jobs = 2;
  bool overlap = false;      // flows may be in several phases
  bool unmovable = false;    // some are
  bool base = false;         // random base loads
  bool shares = false;       // 1, 1/2 and 1/3
  std::uint32_t failed = 0;  // percent of links
};

PhaseCase RandomCase(std::mt19937& random, const Fabric& fabric, const Kind& kind,
                     std::uint32_t flows) {
  const auto leaves = fabric.view.leaf_count();
  PhaseCase input;
  input.jobs.resize(kind.jobs);
  for (PhasedJob& job : input.jobs) job.phases.resize(1 + random() % 3);
  for (std::uint32_t i = 0; i < flows; ++i) {
    const auto source = static_cast<std::uint32_t>(random() % leaves);
    const auto destination =
        static_cast<std::uint32_t>((source + 1 + random() % (leaves - 1)) % leaves);
    const std::size_t paths = fabric.view.Candidates(source, destination).size();
    const auto path = static_cast<std::int32_t>(random() % paths);
    const std::int64_t share = kind.shares ? kLoadUnit / (1 + random() % 3) : kLoadUnit;
    const auto flow = input.Add(source, destination, path, share);
    if (kind.unmovable) input.flows[flow].movable = random() % 4 != 0;
    PhasedJob& job = input.jobs[random() % kind.jobs];
    job.phases[random() % job.phases.size()].push_back(flow);
    if (kind.overlap) job.phases[random() % job.phases.size()].push_back(flow);
  }
  if (!kind.base) return input;
  for (std::size_t link = 0; link < fabric.view.capacities().size(); ++link) {
    input.base.push_back(random() % 3 == 0 ? static_cast<std::int64_t>(random() % kLoadUnit) : 0);
  }
  return input;
}

struct Tally {
  int cases = 0;
  int optimal = 0;  // least maximum load
  int spread = 0;   // of these: least excess of links, and least loads of phases alone
  int fewest = 0;   // of these: with the fewest moves
  int proven = 0;   // is_optimal
  std::size_t extra_moves = 0;
};

// What the result says of itself is what its paths are.
Objective Verify(const FabricView& view, const PhaseCase& input, const PhaseAssignment& result,
                 bool every_leaf) {
  Objective measured = Evaluate(view, input, result.paths, every_leaf);
  EXPECT_EQ(measured.max_load, result.max_load);
  EXPECT_EQ(measured.moved, result.moved);
  if (every_leaf) {
    EXPECT_EQ(measured.excess, result.excess);
    EXPECT_EQ(measured.alone, result.alone);
  }
  return measured;
}

Tally Compare(const Kind& kind, std::uint64_t seeds, bool every_leaf, bool is_clos = true) {
  Tally tally;
  for (const std::uint64_t seed : SeedsToTry(1, seeds)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto fabric = is_clos ? Fabric::LeafSpine(2 + static_cast<int>(seed % 2), 4)
                                : std::make_unique<Fabric>(*fabric::BuildFatTree({.k = 4}));
    if (kind.failed > 0) fabric->FailSome(random, kind.failed);
    const PhaseCase input = RandomCase(random, *fabric, kind, is_clos ? 7 : 6);
    const PhaseAssignment result = input.Assign(fabric->view, {.every_leaf = every_leaf});
    const Objective found = Verify(fabric->view, input, result, every_leaf);
    const Objective best = SolveByBruteForce(fabric->view, input, every_leaf);
    EXPECT_LE(result.lower_bound, best.max_load);
    EXPECT_GE(found, best);
    ++tally.cases;
    tally.proven += result.is_optimal;
    if (found.max_load != best.max_load) continue;
    ++tally.optimal;
    if (found.excess != best.excess || found.alone != best.alone) continue;
    ++tally.spread;
    tally.fewest += found.moved == best.moved;
    tally.extra_moves += found.moved - best.moved;
  }
  std::printf(
      "%d cases: least load %d, of these least excess and loads alone %d, of these fewest "
      "moves %d (%zu too many), proven %d\n",
      tally.cases, tally.optimal, tally.spread, tally.fewest, tally.extra_moves, tally.proven);
  return tally;
}

TEST(PhaseOptimum, IsReachedWithDisjointPhasesOfOneJob) {
  const Tally tally = Compare({.jobs = 1}, 150, false);
  EXPECT_EQ(tally.optimal, tally.cases);
  EXPECT_EQ(tally.proven, tally.cases);
  EXPECT_GE(tally.fewest, tally.cases * 95 / 100);
}

TEST(PhaseOptimum, IsReachedWithSeveralJobs) {
  const Tally tally = Compare({.jobs = 3}, 150, false);
  EXPECT_EQ(tally.optimal, tally.cases);
  EXPECT_GE(tally.fewest, tally.cases * 95 / 100);
}

TEST(PhaseOptimum, IsReachedWithOverlappingPhases) {
  const Tally tally = Compare({.overlap = true}, 150, false);
  EXPECT_GE(tally.optimal, tally.cases * 98 / 100);
}

TEST(PhaseOptimum, IsReachedWithUnmovableFlowsAndBaseLoads) {
  const Tally tally = Compare({.unmovable = true, .base = true}, 150, false);
  EXPECT_GE(tally.optimal, tally.cases * 95 / 100);
}

TEST(PhaseOptimum, IsReachedWithUnequalShares) {
  const Tally tally = Compare({.overlap = true, .shares = true}, 150, false);
  EXPECT_GE(tally.optimal, tally.cases * 95 / 100);
}

TEST(PhaseOptimum, IsReachedOnDamagedFabrics) {
  const Tally tally = Compare({.overlap = true, .failed = 20}, 150, false);
  EXPECT_GE(tally.optimal, tally.cases * 95 / 100);
}

TEST(PhaseOptimum, IsReachedInAFatTree) {
  const Tally tally = Compare({.overlap = true}, 60, false, false);
  EXPECT_GE(tally.optimal, tally.cases * 95 / 100);
}

// The second objective: each phase alone.
TEST(PhaseOptimum, SpreadsPhasesAloneOfSeveralJobs) {
  for (const std::uint32_t jobs : {1U, 2U, 3U}) {
    const Tally tally = Compare({.jobs = jobs}, 100, true);
    EXPECT_EQ(tally.optimal, tally.cases);
    EXPECT_GE(tally.spread, tally.cases * 98 / 100);
    EXPECT_GE(tally.fewest, tally.cases * 95 / 100);
  }
}

TEST(PhaseOptimum, SpreadsPhasesAloneThatOverlap) {
  const Tally tally = Compare({.overlap = true}, 100, true);
  EXPECT_GE(tally.optimal, tally.cases * 98 / 100);
  EXPECT_GE(tally.spread, tally.cases * 95 / 100);
}

TEST(PhaseOptimum, SpreadsPhasesAloneBesideUnmovableFlowsAndBaseLoads) {
  const Tally tally = Compare({.unmovable = true, .base = true}, 100, true);
  EXPECT_GE(tally.optimal, tally.cases * 98 / 100);
  EXPECT_GE(tally.spread, tally.cases * 90 / 100);
}

TEST(PhaseOptimum, SpreadsPhasesAloneOnDamagedFabrics) {
  const Tally tally = Compare({.shares = true, .failed = 20}, 100, true);
  EXPECT_GE(tally.optimal, tally.cases * 98 / 100);
  EXPECT_GE(tally.spread, tally.cases * 90 / 100);
}

}  // namespace
}  // namespace espalier::controller
