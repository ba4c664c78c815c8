#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// How jobs differ from clockwork. All of it is drawn from a seed.
struct Disturbance {
  double jitter = 0;           // of computations and of the later collective, to either side
  double drift = 0;            // of the computation, each iteration
  double stragglers = 0;       // share of flows that start late, by up to a third of a computation
  bool changes_phase = false;  // half way through, every ring turns round
};

struct ReplayOptions {
  Disturbance disturbance;
  int iterations = 24;  // of each job
  int learning = 3;     // of these, the first ones, which do not count
  // The second half of a job's rings begins this much later than the first: a collective of its
  // own.
  std::int64_t later_collective_ns = 0;
  std::uint64_t seed = 1;
  bool plan_ahead = true;
  int most_checks = 1'000;  // starts after which a fresh assignment is made to compare with
  std::function<bool()> is_cancelled = [] { return false; };
};

struct ReplayOutcome {
  std::int64_t starts = 0;                  // of flows between leaves
  std::int64_t planned = 0;                 // of these: on the path of a plan that was ready
  std::int64_t checks = 0;                  // starts, planned or not, that were compared
  std::int64_t checked_planned = 0;         // of these, planned
  std::int64_t least_load = 0;              // planned (without plans: any), no higher maximum load
  std::int64_t as_good = 0;                 // and no worse to any job: two-layer max-min fairness
  std::vector<double> start_error_seconds;  // of an iteration's first flow
  std::vector<double> end_error_seconds;    // as forecast when half of a flow was sent
  double allreduce_seconds = 0;             // mean over jobs and iterations
};

// Training jobs against a controller's own decisions (Placement, Foresight), under virtual time:
// iterations of computation and All-Reduce, each flow sending what all its rounds send in one go
// over links that are shared max-min fairly. A flow begins within a millisecond of its ring, on a
// path drawn at random as ECMP would; 0.2 ms later the controller hears of it, and its path is in
// force. It also hears of ends 0.2 ms late, and of progress every 50 ms. Plans take the time that
// they take on a slow machine (8 us a flow). Ports are left out: every path has one.
//
// Deterministic by the seed. Errors: those of Workload::Build; kResourceExhausted where cancelled.
Result<ReplayOutcome> Replay(const fabric::Topology& topology, std::vector<Job> jobs,
                             const ReplayOptions& options);

}  // namespace espalier::offline
