#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// How jobs deviate from a regular schedule. All deviations are drawn from a seed.
struct Disturbance {
  double jitter = 0;           // relative, of computations and of the later collective
  double drift = 0;            // relative, of the computation in each iteration
  double stragglers = 0;       // share of flows that start late, by up to a third of a computation
  bool changes_phase = false;  // half way through, every ring reverses
};

struct ReplayOptions {
  Disturbance disturbance;
  int iterations = 24;  // of each job
  int learning = 3;     // the first iterations, which do not count
  // How much later the second half of a job's rings begins than the first, as a collective of its
  // own.
  std::int64_t later_collective_ns = 0;
  std::uint64_t seed = 1;
  bool plan_ahead = true;
  int most_checks = 1'000;  // flow arrivals that are compared with an assignment from scratch
  std::function<bool()> is_cancelled = [] { return false; };
};

struct ReplayOutcome {
  std::int64_t starts = 0;           // arrivals of flows between leaves
  std::int64_t planned = 0;          // of these, on a precomputed path
  std::int64_t checks = 0;           // arrivals that were compared with an assignment from scratch
  std::int64_t checked_planned = 0;  // of these, on a precomputed path
  // Of these (without prediction: of the checks), those with no higher maximum load.
  std::int64_t least_load = 0;
  std::int64_t as_good = 0;                 // of these, no worse for any job (max-min fairness)
  std::vector<double> start_error_seconds;  // of the predicted start of an iteration's first flow
  std::vector<double> end_error_seconds;    // of the end estimate when half of a flow was sent
  double allreduce_seconds = 0;             // mean over jobs and iterations
};

// Replays training jobs against the controller's own decisions (Placement, StartPredictor) in
// virtual time. A job repeats iterations of computation and all-reduce. Each flow sends the bytes
// of all its rounds at once, over links that are shared max-min fairly. A flow begins within a
// millisecond of its ring, on a path that is drawn at random as ECMP would; 0.2 ms later the
// controller knows it, and its path takes effect. The controller also learns of ends 0.2 ms late,
// and of progress every 50 ms. Precomputation takes as long as on a slow machine (8 us per flow).
// Ports are left out: every path has one.
//
// Deterministic by the seed. Errors: those of Workload::Build; kInvalidArgument for a job of
// several phases; kResourceExhausted when cancelled.
Result<ReplayOutcome> Replay(const fabric::Topology& topology, std::vector<Job> jobs,
                             const ReplayOptions& options);

}  // namespace espalier::offline
