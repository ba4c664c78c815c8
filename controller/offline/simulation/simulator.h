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

// Decides on paths, as the controller would.
class Router {
 public:
  virtual ~Router() = default;
  // Paths of flows (numbers, ascending) that are live together, in their order. An empty set
  // means that a flow has no path.
  virtual std::vector<std::vector<PathShare>> Route(std::span<const std::uint32_t> live) = 0;
};

// Which flows count as live when paths are computed.
enum class LiveFlows {
  // Those of rings whose all-reduce is not over yet: connections stay open between rounds.
  kOpen,
  // Of these, those that still have bytes to send in the present round (as floodns counts).
  kUnfinished,
};

struct SimulationOptions {
  LiveFlows live_flows = LiveFlows::kOpen;
  // No contention between switches: only the hosts' own links limit.
  bool is_ideal = false;
  std::int64_t max_events = 100'000'000;
  // Asked now and then; true ends the simulation.
  std::function<bool()> is_cancelled = [] { return false; };
};

struct JobOutcome {
  // Per epoch: the longest of the rings' all-reduce times.
  std::vector<double> epoch_seconds;
  double allreduce_seconds = 0;        // mean of the epochs
  double mean_completion_seconds = 0;  // of a flow of one round
  double mean_throughput_gbps = 0;     // mean over flows of bits / completion time
  std::int64_t flows = 0;              // of all rounds of all rings in all epochs
};

struct SimulationOutcome {
  std::vector<JobOutcome> jobs;
  std::int64_t assignments = 0;
  std::int64_t assigned_flows = 0;  // sum of the live flows of all assignments
  std::int64_t events = 0;
  double max_link_load = 0;  // most flow units ever assigned to one switch-to-switch direction
  double end_seconds = 0;    // simulated time
};

// The fabric and the jobs on it.
class Workload {
 public:
  // Errors: kInvalidArgument for a NIC that hangs on no switch or on several, for a ring of fewer
  // than two flows, no bytes, no epochs, no jobs.
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

// Simulates the jobs from their starts to their ends, flow by flow: rates are max-min fair at
// every moment; a ring's next round begins 1 ns after the last of its flows has ended; the first
// round 1 ns after the epoch begins; paths of all live flows are computed when a job's epoch
// begins and, where another job communicates, when it ends; a flow that is not live then keeps
// its path; to change a path costs nothing. (The semantics of the paper's simulator, floodns.)
// A flow split over paths ends when its last part ends.
//
// Deterministic. Complexity: O(events x links of the part of the fabric that an event touches);
// a scenario of two jobs with 896 flows and 155,254 events takes 50 to 60 ms (docs/benchmarks.md).
// Errors: kFailedPrecondition where a flow has no path; kResourceExhausted past max_events or
// where cancelled.
Result<SimulationOutcome> Simulate(const Workload& workload, Router& router,
                                   const SimulationOptions& options);

}  // namespace espalier::offline
