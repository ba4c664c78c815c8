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
#include "controller/offline/simulation/simulator.h"
#include "controller/routing/assigner.h"

namespace espalier::offline {

enum class Algorithm { kGreedy, kOptimal, kAnnealing, kIlp, kEcmp, kIdeal };

// "greedy", "optimal", ...
std::string_view AlgorithmName(Algorithm algorithm);
// "greedy,ecmp": algorithms by name; "all": all but ilp, which needs a solver and minutes.
// Errors: kInvalidArgument for a name that is none.
Result<std::vector<Algorithm>> ParseAlgorithms(std::string_view names);

// A way to choose paths, as a row of the tables.
struct Scheme {
  Algorithm algorithm = Algorithm::kOptimal;
  std::uint32_t split = 1;  // ways of every flow
  std::uint64_t seed = 0;   // of ecmp and annealing
};

struct SchemeRun {
  Scheme scheme;
  SimulationOutcome outcome;
  std::vector<double> assignment_seconds;  // of each that was computed
  double wall_seconds = 0;                 // of the whole simulation
};
// The median, microseconds; 0 where none was computed.
double TypicalMicroseconds(const std::vector<double>& assignment_seconds);

// How an integer program is solved: the text of the program in, the solver's answer out.
using SolveIlp = std::function<Result<std::string>(const std::string& program)>;

// Runs schemes on one workload. The topology must not change meanwhile.
class SchemeRunner {
 public:
  SchemeRunner(const fabric::Topology& topology, const Workload& workload, SolveIlp solve_ilp);

  // Errors: those of the simulation; of the solver, for ilp.
  Result<SchemeRun> Run(const Scheme& scheme, const SimulationOptions& options);

 private:
  controller::Assignment Assign(const Scheme& scheme,
                                std::span<const controller::Commodity> commodities,
                                std::span<const std::uint32_t> flows);
  // Solved once for every set of flows: a job's epochs ask the same again and again.
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
// Errors: kInvalidArgument where there are fewer.
Result<void> FailLastSpines(fabric::Topology& topology, int count);

}  // namespace espalier::offline
