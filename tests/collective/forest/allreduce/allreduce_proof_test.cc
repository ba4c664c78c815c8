#include "collective/forest/allreduce/allreduce_proof.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective/forest/allreduce/allreduce_program.h"
#include "collective/forest/planner/planner.h"
#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

using fabric::Topology;

// Eight ranks on one switch, 2,400 Gbit/s each way.
Topology MakeStar() { return BuildTopology(MakeReferenceTopology("a100_1")); }

// What remains if only half of the first rank's link towards the switch is left.
ProblemOptions MakeOutOfBalance(const Topology& topology) {
  ProblemOptions options;
  for (const fabric::Link& link : topology.links()) {
    options.available.insert(options.available.end(), 2, link.rate);
  }
  const fabric::Link& first = topology.links().front();
  const bool up = topology.node(first.a).kind == fabric::NodeKind::kCompute;
  options.available[up ? 0 : 1].value /= 2;
  return options;
}

TreeSchedule MakeSchedule(const Topology& topology, const ProblemOptions& problem,
                          std::int64_t trees = 0) {
  auto made = MakeTreeSchedule(topology, {.collective = Collective::kAllreduce,
                                          .problem = problem,
                                          .trees_per_weight = trees,
                                          .height_steps = 0});
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(made->schedule);
}

LinearSolver Unused() {
  return [](const std::string&) -> Result<std::string> {
    ADD_FAILURE() << "counting proves it";
    return Fail(ErrorCode::kInternal, "not needed");
  };
}

TEST(ProveAllreduce, CountsWhereThatProves) {
  const Topology topology = MakeStar();
  const TreeSchedule schedule = MakeSchedule(topology, {});
  const auto proof = ProveAllreduce(topology, {}, schedule, Unused());
  ASSERT_TRUE(proof.has_value()) << proof.error().message;
  EXPECT_EQ(proof->exact_gbps, Rational(9'600, 7));
  EXPECT_EQ(proof->parts, 8U);
  EXPECT_FALSE(proof->better_possible);
  EXPECT_EQ(DescribeProof(*proof, schedule),
            "no allreduce is faster than these 1371.43 Gbit/s (counted exactly over 8 parts of the "
            "fabric)");
}

// The trees have to keep to the narrower direction on both ways, an allreduce need not.
TEST(ProveAllreduce, SolvesTheProgramOfTheLinksAsTheyAre) {
  const Topology topology = MakeStar();
  const ProblemOptions options = MakeOutOfBalance(topology);
  const TreeSchedule schedule = MakeSchedule(topology, options);
  ProblemOptions as_they_are = options;
  as_they_are.balanced = false;
  const Problem problem = *BuildProblem(topology, as_they_are);
  const double attained = schedule.AlgorithmGbps(schedule.inverse_rate).ToDouble();
  std::vector<double> reports;
  const Control control{
      .cancelled = {}, .progress = [&](std::string_view, double done) { reports.push_back(done); }};
  for (const double factor : {1.0, 1 + 5e-7, 1 + 2e-6, 1.25}) {
    const double rate = attained * factor * 1e9 / static_cast<double>(problem.unit.value);
    const auto solve = [&](const std::string& program) -> Result<std::string> {
      EXPECT_EQ(program, *WriteAllreduceProgram(problem));
      EXPECT_EQ(reports.back(), 1);
      return fmt::format("Optimal\n 0 rate {:.17g} 0\n", rate);
    };
    const auto proof = ProveAllreduce(topology, options, schedule, solve, control);
    ASSERT_TRUE(proof.has_value()) << proof.error().message;
    EXPECT_FALSE(proof->exact_gbps.has_value());
    EXPECT_EQ(proof->parts, 0U);
    EXPECT_NEAR(proof->best_gbps, attained * factor, 1e-9 * attained);
    EXPECT_EQ(proof->better_possible, factor > 1 + 1e-6) << factor;
  }
}

TEST(ProveAllreduce, PassesErrorsOn) {
  const Topology topology = MakeStar();
  const ProblemOptions options = MakeOutOfBalance(topology);
  const TreeSchedule schedule = MakeSchedule(topology, options);
  const auto prove = [&](const ProblemOptions& problem, const Result<std::string>& answer) {
    return ProveAllreduce(topology, problem, schedule, [&](const std::string&) { return answer; })
        .error()
        .message;
  };
  EXPECT_EQ(prove({.weights = {1}}, ""), "1 weights for 8 ranks");
  EXPECT_EQ(prove(options, Fail(ErrorCode::kInternal, "no solver")), "no solver");
  EXPECT_EQ(prove(options, "Stopped"),
            "the solver found no optimum within its time limit (use fewer ranks)");
}

TEST(DescribeProof, SaysHowAndHowMuch) {
  const Topology topology = MakeStar();
  const TreeSchedule schedule = MakeSchedule(topology, {});
  EXPECT_EQ(DescribeProof({.best_gbps = 1'371}, schedule),
            "no allreduce is faster than these 1371.43 Gbit/s (by the linear program, to its "
            "solver's tolerance)");
  EXPECT_EQ(DescribeProof({.best_gbps = 1'600, .better_possible = true}, schedule),
            "an allreduce of 1600 Gbit/s is possible, 16.67 % more (by the linear program, to its "
            "solver's tolerance)");
  EXPECT_EQ(
      DescribeProof({.exact_gbps = Rational(1'600, 1),
                     .parts = 4,
                     .best_gbps = 1'600,
                     .better_possible = true},
                    schedule),
      "an allreduce of 1600 Gbit/s is possible, 16.67 % more (counted exactly over 4 parts of "
      "the fabric)");
}

}  // namespace
}  // namespace espalier::forest
