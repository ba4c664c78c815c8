#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// A flow of a ring as routing sees it: its number counts the flows of all rings of all jobs in
// the order of the jobs.
struct SimulatedFlow {
  std::uint32_t job = 0;
  std::uint32_t ring = 0;
  fabric::NodeId source;
  fabric::NodeId destination;
  fabric::Attachment source_attachment;
  fabric::Attachment destination_attachment;
  std::int64_t round_bytes = 0;
};

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

// Which flows count as in progress when paths are computed.
enum class LiveFlows {
  // Flows of rings whose all-reduce has not ended: connections stay open between rounds.
  kOpen,
  // Of these, flows with bytes to send in the present round (as floodns counts).
  kUnfinished,
};

struct SimulationOptions {
  LiveFlows live_flows = LiveFlows::kOpen;
  // No contention between switches: only host links limit rates.
  bool is_ideal = false;
  std::int64_t max_events = 100'000'000;
  // Called periodically; true ends the simulation.
  std::function<bool()> is_cancelled = [] { return false; };
};

struct JobOutcome {
  // By epoch: the longest all-reduce time of the rings.
  std::vector<double> epoch_seconds;
  double allreduce_seconds = 0;        // mean of the epochs
  double mean_completion_seconds = 0;  // of a flow of one round
  double mean_throughput_gbps = 0;     // mean over flows of bits / completion time
  std::int64_t flows = 0;              // of all rounds of all rings in all epochs
};

struct SimulationOutcome {
  std::vector<JobOutcome> jobs;
  std::int64_t assignments = 0;
  std::int64_t assigned_flows = 0;  // sum over assignments of the flows in progress
  std::int64_t events = 0;
  double max_link_load = 0;  // highest load ever assigned to a directed link between switches
  double end_seconds = 0;    // simulated time
};

// The fabric and the jobs on it.
class Workload {
 public:
  // Errors: kInvalidArgument for a NIC that is not attached to exactly one switch, a ring of fewer
  // than two flows, no bytes, no epochs, or no jobs.
  static Result<Workload> Build(const fabric::Topology& topology, std::vector<Job> jobs);

  const fabric::Topology& topology() const { return *topology_; }
  std::span<const Job> jobs() const { return jobs_; }
  std::span<const SimulatedFlow> flows() const { return flows_; }
  // The number of the first flow of a ring.
  std::uint32_t FirstFlow(std::uint32_t job, std::uint32_t ring) const {
    return first_flow_[job][ring];
  }

 private:
  const fabric::Topology* topology_ = nullptr;
  std::vector<Job> jobs_;
  std::vector<SimulatedFlow> flows_;
  std::vector<std::vector<std::uint32_t>> first_flow_;  // by job and ring
};

// Simulates the jobs from their starts to their ends, flow by flow, with the semantics of the
// paper's simulator, floodns. Rates are max-min fair at every moment. A ring's next round begins 1
// ns after the last of its flows has ended, and the first round 1 ns after the epoch begins. The
// paths of all flows in progress are computed when an epoch of a job begins and, if another job
// communicates then, when it ends. A flow that is not in progress then keeps its path. Path changes
// cost nothing. A split flow ends when its last part ends.
//
// Deterministic. Complexity: O(events x links of the part of the fabric that an event touches);
// a scenario of two jobs with 896 flows and 155,254 events takes 50 to 60 ms (docs/benchmarks.md).
// Errors: kFailedPrecondition if a flow has no path; kResourceExhausted beyond max_events or when
// cancelled.
Result<SimulationOutcome> Simulate(const Workload& workload, Router& router,
                                   const SimulationOptions& options);

}  // namespace espalier::offline
