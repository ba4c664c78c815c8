#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// The result of a run of all ranks of a lab, one rank per host.
struct RanksRun {
  std::vector<double> seconds;  // by call: time of the slowest rank
  std::int64_t wrong_sums = 0;  // elements, over all ranks and completed calls
  int failed_calls = 0;         // over all ranks: calls that ended with an error
  bool completed = false;       // every rank ended without an error
  double Median() const;
};

struct RanksOptions {
  std::int64_t bytes = 4'000'000;
  int calls = 3;
  std::string job;  // whose job plan the ranks use; "": a ring on plain ECMP
  // Whether the ranks continue without plans if some have none.
  bool may_be_plain = false;
  int timeout_ms = 30'000;  // for joining, and for each call
  // Called repeatedly while they run.
  std::function<void()> on_running;
};
// Runs all ranks. `programs` is the folder with espalier-lab-rank. Errors: kNotFound; those of
// starting the processes.
Result<RanksRun> RunRanks(const lab::Lab& lab, const std::string& programs,
                          const RanksOptions& options);

// Start a job of all hosts and wait until every rank's plan is acknowledged; end it.
Result<void> StartTreeJob(const LabDaemons& daemons, const lab::Lab& lab, const std::string& name,
                          std::int64_t bytes, bool offload);
Result<void> StopTreeJob(const LabDaemons& daemons, const std::string& name);
// Polls until the job is READY with another plan than this one ("": any). Returns the plan's
// number.
Result<std::string> AwaitPlan(const LabDaemons& daemons, const std::string& name,
                              const std::string& other_than);

// One edge of the job plan in force, from the controller.
struct PlannedEdge {
  std::string source;  // addresses
  std::string destination;
  std::uint16_t port = 0;
  std::string via;   // spine; "": the edge does not cross the fabric
  double share = 0;  // fraction of a call's bytes
};
Result<std::vector<PlannedEdge>> ReadPlan(const LabDaemons& daemons, const std::string& name);

// The comparison of a run with the counters of the switches above the leaves.
struct CounterComparison {
  int edges = 0;         // edges that cross the fabric
  int silent_edges = 0;  // of these, without a packet
  // Connections over other switches or from another port than planned, described.
  std::vector<std::string> stray_connections;
  // The smallest and the largest ratio of an edge's payload to its planned payload.
  double least_payload = 0;
  double most_payload = 0;
};
// Compares `calls` calls of `bytes` each by this plan with what the switches counted meanwhile.
// They count only TCP to the ports on which ranks listen, so the ranks' rendezvous is not included.
CounterComparison CompareWithCounters(const std::vector<PlannedEdge>& plan, std::int64_t bytes,
                                      int calls, std::span<const lab::FlowCount> counts);

}  // namespace espalier::demo
