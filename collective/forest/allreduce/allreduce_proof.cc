#include "collective/forest/allreduce/allreduce_proof.h"

#include <fmt/format.h>

#include "collective/forest/allreduce/allreduce_program.h"
#include "collective/forest/allreduce/tight_partition.h"
#include "collective/forest/bound/optimality.h"

namespace espalier::forest {
namespace {

// The relative difference below which solvers treat numbers as equal.
constexpr double kTolerance = 1e-6;

}  // namespace

Result<AllreduceProof> ProveAllreduce(const fabric::Topology& topology,
                                      const ProblemOptions& options, const TreeSchedule& schedule,
                                      const LinearSolver& solver, const Control& control) {
  ProblemOptions as_they_are = options;
  as_they_are.balanced = false;
  const auto problem = BuildProblem(topology, as_they_are);
  if (!problem) return tl::unexpected<Error>(problem.error());
  const auto optimality = ComputeOptimality(*problem, control);
  if (!optimality) return tl::unexpected<Error>(optimality.error());
  const auto partition = FindTightPartition(*problem, *optimality, control);
  if (!partition) return tl::unexpected<Error>(partition.error());

  AllreduceProof proof;
  const Rational attained = schedule.AlgorithmGbps(schedule.inverse_rate);
  const auto inverse_rate = problem->PerGbps(optimality->inverse_rate);
  // Counting holds for any links, but two collectives attain its bound only on balanced links:
  // there the schedule's bound is the same.
  if (partition->has_value() && inverse_rate && *inverse_rate == schedule.bound_inverse_rate) {
    proof.exact_gbps = schedule.AlgorithmGbps(*inverse_rate);
    proof.parts = (*partition)->parts.size();
    proof.best_gbps = proof.exact_gbps->ToDouble();
    proof.better_possible = *proof.exact_gbps > attained;
    return proof;
  }
  const auto program = WriteAllreduceProgram(*problem);
  if (!program) return tl::unexpected<Error>(program.error());
  control.Report("prove", 1);
  const auto solution = solver(*program);
  if (!solution) return tl::unexpected<Error>(solution.error());
  const auto rate = ReadAllreduceRate(*solution);
  if (!rate) return tl::unexpected<Error>(rate.error());
  proof.best_gbps = *rate * static_cast<double>(problem->unit.value) / 1e9;
  proof.better_possible = proof.best_gbps > attained.ToDouble() * (1 + kTolerance);
  return proof;
}

std::string DescribeProof(const AllreduceProof& proof, const TreeSchedule& schedule) {
  const double attained = schedule.AlgorithmGbps(schedule.inverse_rate).ToDouble();
  const std::string how =
      proof.exact_gbps ? fmt::format("counted exactly over {} parts of the fabric", proof.parts)
                       : std::string("by the linear program, to its solver's tolerance");
  if (!proof.better_possible) {
    return fmt::format("no allreduce is faster than these {:.6g} Gbit/s ({})", attained, how);
  }
  return fmt::format("an allreduce of {:.6g} Gbit/s is possible, {:.4g} % more ({})",
                     proof.best_gbps, 100 * (proof.best_gbps / attained - 1), how);
}

}  // namespace espalier::forest
