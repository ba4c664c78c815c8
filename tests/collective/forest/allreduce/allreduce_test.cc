#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "collective/forest/allreduce/allreduce_program.h"
#include "collective/forest/allreduce/allreduce_proof.h"
#include "collective/forest/allreduce/tight_partition.h"
#include "collective/forest/planner/planner.h"
#include "collective/forest/problem/build_problem.h"
#include "controller/offline/evaluation/solver.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

using fabric::Topology;

// Returns X in units of the problem, by the linear program.
double Solve(const Problem& problem) {
  const auto program = WriteAllreduceProgram(problem);
  EXPECT_TRUE(program.has_value());
  const auto solution = offline::SolveWithCbc(*program);
  EXPECT_TRUE(solution.has_value()) << solution.error().message;
  const auto rate = ReadAllreduceRate(*solution);
  EXPECT_TRUE(rate.has_value()) << rate.error().message;
  return rate.value_or(0);
}

// Returns the rate that reduce-scatter and allgather attain together.
double Attained(const Problem& problem, const Optimality& optimality) {
  return static_cast<double>(problem.TotalWeight()) / 2 / optimality.inverse_rate.ToDouble();
}

// If the parts are tight, their capacities prove the program's optimum; checked independently.
void ExpectTight(const Problem& problem, const Optimality& optimality,
                 const TightPartition& partition) {
  std::vector<int> part_of(static_cast<std::size_t>(problem.node_count), -1);
  for (std::size_t p = 0; p < partition.parts.size(); ++p) {
    for (const std::int32_t node : partition.parts[p]) {
      EXPECT_EQ(part_of[static_cast<std::size_t>(node)], -1);
      part_of[static_cast<std::size_t>(node)] = static_cast<int>(p);
    }
  }
  for (std::int32_t r = 0; r < problem.rank_count; ++r) {
    EXPECT_NE(part_of[static_cast<std::size_t>(r)], -1);
  }
  std::int64_t entries = 0;
  for (const Arc& arc : problem.arcs) {
    const int to = part_of[static_cast<std::size_t>(arc.head)];
    if (to >= 0 && to != part_of[static_cast<std::size_t>(arc.tail)]) entries += arc.capacity;
  }
  const auto parts = static_cast<std::int64_t>(partition.parts.size());
  ASSERT_GE(parts, 2);
  EXPECT_EQ(*Rational::Product(optimality.inverse_rate, Rational(entries, 1)),
            Rational((parts - 1) * problem.TotalWeight(), 1));
}

struct Case {
  std::string name;
  std::size_t parts;
};

TEST(TightPartition, IsFoundOnTheReferenceCases) {
  for (const Case& c : std::vector<Case>{{"ring8", 8},
                                         {"uring8", 8},
                                         {"hcube3", 8},
                                         {"torus3x3x3", 27},
                                         {"figB1", 2},
                                         {"a100_1", 8},
                                         {"a100_2", 16},
                                         {"a100_4", 4},
                                         {"mi250_1", 8},
                                         {"clos4x4s2", 16},
                                         {"clos4x4s3_20", 4},
                                         {"h100_2", 16}}) {
    const Problem problem = MakeReferenceProblem(c.name);
    const Optimality optimality = *ComputeOptimality(problem);
    const auto partition = FindTightPartition(problem, optimality);
    ASSERT_TRUE(partition.has_value() && partition->has_value()) << c.name;
    EXPECT_EQ((*partition)->parts.size(), c.parts) << c.name;
    ExpectTight(problem, optimality, **partition);
  }
}

TEST(AllreduceProgram, AgreesWithTheCountingWhereThatProves) {
  for (const char* name : {"ring8", "hcube3", "a100_1", "figB1", "torus3x3"}) {
    const Problem problem = MakeReferenceProblem(name);
    const double attained = Attained(problem, *ComputeOptimality(problem));
    EXPECT_NEAR(Solve(problem), attained, 1e-6 * attained) << name;
  }
}

TEST(AllreduceProgram, ServesOneWayLinksAndUnequalWeights) {
  // Both halves are needed here, as the reversed arcs differ.
  const Problem ring = MakeReferenceProblem("uring8");
  EXPECT_NEAR(Solve(ring), 4.0 / 7, 1e-6);
  // Weights are shards of reduce-scatter; an allreduce chooses its own roots.
  ProblemOptions options;
  options.weights = {0, 0, 1, 0, 0, 0, 0, 0};
  const Topology topology = BuildTopology(MakeReferenceTopology("ring8"));
  EXPECT_NEAR(Solve(*BuildProblem(topology, options)), 8.0 / 7, 1e-6);
}

// Half boxes: GPUs 0 to 3 are the bottleneck of an allgather, so an allreduce has its roots
// elsewhere. No more than a box's 8 * 16 GB/s to the fabric is possible: each part of the result
// has to leave a box once and enter it once.
TEST(AllreduceProgram, FindsMoreThanTwoCollectivesWhereRanksAreUnequal) {
  const Problem problem = MakeReferenceProblem("mi250_8p8");
  const Optimality optimality = *ComputeOptimality(problem);
  EXPECT_FALSE(FindTightPartition(problem, optimality)->has_value());
  const Rational in_table_units = PerTableUnit("mi250_8p8", problem, Rational(1, 1));
  EXPECT_NEAR(Attained(problem, optimality), 104 * in_table_units.ToDouble(), 1e-6);
  EXPECT_NEAR(Solve(problem), 128 * in_table_units.ToDouble(), 1e-4);
}

// Never less than the two collectives; equal to them if counting proves it.
TEST(AllreduceProgram, IsNeverBelowReduceScatterAndAllgather) {
  constexpr std::uint64_t kSeed = 20261121;
  std::mt19937_64 random(kSeed);
  int proved = 0;
  int better = 0;
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " round " << round);
    const Topology topology =
        BuildTopology(MakeRandomGraph({.max_ranks = 5, .max_switches = 2, .max_rate = 12}, random));
    const Problem problem = *BuildProblem(topology, {});
    const auto optimality = ComputeOptimality(problem);
    if (!optimality) continue;
    const auto partition = FindTightPartition(problem, *optimality);
    ASSERT_TRUE(partition.has_value());
    const double attained = Attained(problem, *optimality);
    const double best = Solve(problem);
    EXPECT_GT(best, attained * (1 - 1e-6));
    if (partition->has_value()) {
      ++proved;
      ExpectTight(problem, *optimality, **partition);
      EXPECT_LT(best, attained * (1 + 1e-6));
    }
    better += best > attained * (1 + 1e-6) ? 1 : 0;
  }
  EXPECT_GT(proved, 0);
  EXPECT_GT(better, 0);
}

TEST(AllreduceProof, TellsWhatAFixedNumberOfTreesLoses) {
  const Topology topology = BuildTopology(MakeReferenceTopology("a100_2"));
  const auto made = MakeTreeSchedule(
      topology, {.collective = Collective::kAllreduce, .trees_per_weight = 1, .height_steps = 0});
  ASSERT_TRUE(made.has_value());
  const auto unused = [](const std::string&) -> Result<std::string> {
    return Fail(ErrorCode::kInternal, "not needed");
  };
  const auto proof = ProveAllreduce(topology, {}, made->schedule, unused);
  ASSERT_TRUE(proof.has_value()) << proof.error().message;
  EXPECT_TRUE(proof->better_possible);
  EXPECT_EQ(*proof->exact_gbps, Rational(4'160, 3));
}

TEST(AllreduceProof, SaysWhyItCannotTell) {
  const Problem large = MakeReferenceProblem("a100_64");
  const auto program = WriteAllreduceProgram(large);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(program.error().message, testing::HasSubstr("512 ranks has "));
  EXPECT_EQ(ReadAllreduceRate("Stopped on time").error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(ReadAllreduceRate("Optimal\n").error().code, ErrorCode::kInternal);
  EXPECT_EQ(ReadAllreduceRate("Optimal\n  0 rate  x 0\n").error().code, ErrorCode::kInternal);
  EXPECT_EQ(*ReadAllreduceRate("Optimal\n      3 rate      2.5    0\n"), 2.5);
}

}  // namespace
}  // namespace espalier::forest
