#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/offline/simulation/workload.h"

namespace espalier::offline {

// A part of a flow on one path between the two switches; the shares of a flow add up to one.
struct PathShare {
  std::vector<std::uint32_t> links;  // DirectedLink::Index(); none within one switch
  double share = 1;
  bool operator==(const PathShare&) const = default;
};

// Chooses paths, as the controller would.
class Router {
 public:
  virtual ~Router() = default;
  // The paths of flows (numbers, ascending) that are in progress together, in their order. An empty
  // set means that a flow has no path.
  virtual std::vector<std::vector<PathShare>> Route(std::span<const std::uint32_t> live) = 0;
};

// Which flows are assigned paths together, and therefore when.
enum class LiveFlows {
  // Flows of exchanges in progress, also between two rounds. Paths are computed when a phase of a
  // job begins and, if another job communicates then, when it ends.
  kOpen,
  // Of these, flows with bytes to send in the present round (as floodns counts).
  kUnfinished,
  // All connections of all jobs that have not ended. Paths are computed when a job begins or ends.
  kConnections,
};

// A flow begins to send, or is given other paths while it sends.
struct SendingFlow {
  std::uint32_t flow = 0;  // its number
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;  // of the round that begins; 0: it has only other paths
  std::span<const PathShare> paths;
};

struct SimulationOptions {
  LiveFlows live_flows = LiveFlows::kOpen;
  // No contention between switches: only host links limit rates.
  bool is_ideal = false;
  std::int64_t max_events = 100'000'000;
  std::function<void(const SendingFlow&)> on_sending = [](const SendingFlow&) {};
  // Called periodically; true ends the simulation.
  std::function<bool()> is_cancelled = [] { return false; };
};

struct JobOutcome {
  // By epoch: the sum over its phases of the time that the slowest exchange takes.
  std::vector<double> epoch_seconds;
  std::vector<double> phase_seconds;   // by phase, mean of the epochs
  double allreduce_seconds = 0;        // mean of the epochs: the communication time of an iteration
  double mean_completion_seconds = 0;  // of a flow of one round
  double mean_throughput_gbps = 0;     // mean over flows of bits / completion time
  double slowest_flow_seconds = 0;     // of one round
  double slowest_flow_gbps = 0;        // in one round, on average over it
  std::int64_t flows = 0;              // of all rounds of all exchanges in all epochs
  std::int64_t ports_changed = 0;      // paths of connections that had another one before
};

struct SimulationOutcome {
  std::vector<JobOutcome> jobs;
  std::int64_t assignments = 0;
  std::int64_t assigned_flows = 0;  // sum over assignments of the flows that they assign
  std::int64_t events = 0;
  // The highest load on a directed link between switches of the flows that communicate at once.
  double max_link_load = 0;
  double end_seconds = 0;  // simulated time
};

// Simulates the jobs from their starts to their ends, flow by flow, with the semantics of the
// paper's simulator, floodns. Rates are max-min fair at every moment. An exchange's next round
// begins 1 ns after the last of its flows has ended, and the first round 1 ns after the phase
// begins. A phase ends with its slowest exchange. Paths are computed as LiveFlows says, and a flow
// that is not assigned then keeps its path. Path changes cost nothing. A split flow ends when its
// last part ends.
//
// Deterministic. Complexity: O(events x links of the part of the fabric that an event touches);
// a scenario of two jobs with 896 flows and 155,254 events takes 50 to 60 ms (docs/benchmarks.md).
// Errors: kFailedPrecondition if a flow has no path; kResourceExhausted beyond max_events or when
// cancelled.
Result<SimulationOutcome> Simulate(const Workload& workload, Router& router,
                                   const SimulationOptions& options);

}  // namespace espalier::offline
