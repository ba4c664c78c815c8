#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/model/tree_schedule.h"
#include "collective/forest/problem/build_problem.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Solves a linear program (CPLEX's LP format); gives the solution in the format of cbc.
using LinearSolver = std::function<Result<std::string>(const std::string& program)>;

// Whether an allreduce could be faster than a plan for one.
struct AllreduceProof {
  // Exactly the best there is, proved by counting (TightPartition); none where that proves nothing
  // and the linear program was solved, to the tolerance of its solver.
  std::optional<Rational> exact_gbps;
  std::size_t parts = 0;  // of the partition
  double best_gbps = 0;   // data over time of the best allreduce
  bool better_possible = false;
};

// topology and options: what the plan was made from.
// Errors: those of BuildProblem, ComputeOptimality, FindTightPartition, WriteAllreduceProgram,
// the solver and ReadAllreduceRate.
Result<AllreduceProof> ProveAllreduce(const fabric::Topology& topology,
                                      const ProblemOptions& options, const TreeSchedule& plan,
                                      const LinearSolver& solver, const Control& control = {});

// "no allreduce is faster: ..." for people.
std::string DescribeProof(const AllreduceProof& proof, const TreeSchedule& plan);

}  // namespace espalier::forest
