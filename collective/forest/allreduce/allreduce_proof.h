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

// Solves a linear program in CPLEX's LP format; returns the solution in cbc's format.
using LinearSolver = std::function<Result<std::string>(const std::string& program)>;

// Says whether an allreduce could be faster than a given schedule.
struct AllreduceProof {
  // The exact optimum, proved by counting (TightPartition). None if counting proves nothing and the
  // linear program was solved instead, to the tolerance of its solver.
  std::optional<Rational> exact_gbps;
  std::size_t parts = 0;  // in the partition
  double best_gbps = 0;   // algorithm bandwidth of the best allreduce
  bool better_possible = false;
};

// topology and options: those that the schedule was made from.
// Errors: those of BuildProblem, ComputeOptimality, FindTightPartition, WriteAllreduceProgram, the
// solver and ReadAllreduceRate.
Result<AllreduceProof> ProveAllreduce(const fabric::Topology& topology,
                                      const ProblemOptions& options, const TreeSchedule& schedule,
                                      const LinearSolver& solver, const Control& control = {});

// Describes the proof for people: "no allreduce is faster: ...".
std::string DescribeProof(const AllreduceProof& proof, const TreeSchedule& schedule);

}  // namespace espalier::forest
