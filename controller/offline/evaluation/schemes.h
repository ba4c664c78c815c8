#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/paths.h"
#include "controller/offline/evaluation/connection_schemes.h"
#include "controller/offline/simulation/assignment_router.h"
#include "controller/offline/simulation/simulator.h"
#include "controller/routing/assigner.h"

namespace espalier::offline {

enum class Algorithm {
  kGreedy,
  kOptimal,
  kAnnealing,
  kIlp,
  kEcmp,
  kConnections,  // every open connection counts (ConnectionAssigner)
  kPhases,       // one path for all phases (PhaseAssigner)
  kIdeal,
};

// Whether it assigns paths to the connections of a job when the job begins, for its whole life.
constexpr bool AssignsConnections(Algorithm algorithm) {
  return algorithm == Algorithm::kConnections || algorithm == Algorithm::kPhases;
}

// "greedy", "optimal", ...
std::string_view AlgorithmName(Algorithm algorithm);
// Parses names of algorithms, such as "greedy,ecmp"; "all" stands for all but ilp, which needs a
// solver and minutes. Errors: kInvalidArgument for an unknown name.
Result<std::vector<Algorithm>> ParseAlgorithms(std::string_view names);

// A method to choose paths, as the tables list it.
struct Scheme {
  Algorithm algorithm = Algorithm::kOptimal;
  std::uint32_t split = 1;  // subflows of every flow
  std::uint64_t seed = 0;   // for ecmp and annealing
};

struct SchemeRun {
  Scheme scheme;
  SimulationOutcome outcome;
  // Of schemes that assign paths to every phase from scratch: of the meetings of phases that
  // happened.
  WorstOverlap overlap;
  std::vector<double> assignment_seconds;  // of each assignment that was computed
  double wall_seconds = 0;                 // of the whole simulation
};
// Paths of the job's connections that change, on average over its epochs.
double PortsChangedPerEpoch(const JobOutcome& outcome);
// The median in microseconds; 0 without assignments.
double TypicalMicroseconds(const std::vector<double>& assignment_seconds);

// Solves an integer program: takes its text and returns the solver's output.
using SolveIlp = std::function<Result<std::string>(const std::string& program)>;

// Runs schemes on one workload. The topology must not change meanwhile.
class SchemeRunner {
 public:
  SchemeRunner(const fabric::Topology& topology, const Workload& workload, SolveIlp solve_ilp);

  // Schemes that assign connections ignore options.live_flows. Errors: those of the simulation;
  // with ilp, those of the solver.
  Result<SchemeRun> Run(const Scheme& scheme, const SimulationOptions& options);

 private:
  // The assigner of a run, which may keep paths from one assignment to the next.
  AssignmentRouter::Assign MakeAssign(const Scheme& scheme, SchemeRun& run, Result<void>& solved);
  // Keeps the greater of the run's worst overlap and that of this assignment.
  static void NoteOverlap(const WorstOverlap& overlap, SchemeRun& run);
  WorstOverlap EcmpOverlap(const AssignmentRouter& router, const Scheme& scheme);
  controller::Assignment Assign(const Scheme& scheme,
                                std::span<const controller::Commodity> commodities,
                                std::span<const std::uint32_t> flows);
  // Solves each set of flows once, as the epochs of a job repeat it.
  Result<controller::Assignment> AssignByIlp(std::span<const controller::Commodity> commodities,
                                             std::span<const std::uint32_t> flows,
                                             std::uint32_t split);
  controller::Assignment AssignGreedily(std::span<const controller::Commodity> commodities);

  const Workload& workload_;
  fabric::PathTable paths_;
  controller::FabricView view_;
  controller::Assigner assigner_;
  SolveIlp solve_ilp_;
  std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, controller::Assignment>
      solved_;  // by split and flows
};

// Takes the last `count` spines of a topology out of service: sets their links DOWN.
// Errors: kInvalidArgument if there are fewer spines.
Result<void> FailLastSpines(fabric::Topology& topology, int count);

}  // namespace espalier::offline
