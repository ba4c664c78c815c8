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

// How all ranks of a lab fared: one a host, in the order of the hosts.
struct RanksRun {
  std::vector<double> seconds;  // of each call, the slowest rank's
  std::int64_t wrong_sums = 0;  // elements, over all ranks and calls that were done
  int failed_calls = 0;         // over all ranks: those that ended with an error
  bool completed = false;       // every rank ended well
  double Median() const;
};

struct RanksOptions {
  std::int64_t bytes = 4'000'000;
  int calls = 3;
  std::string job;  // by whose plans; "": a ring on plain ECMP
  // Whether they go on without plans where not all have one.
  bool may_be_plain = false;
  int timeout_ms = 30'000;  // of joining, and of a call
  // Called now and then while they run.
  std::function<void()> on_running;
};
// programs: the folder with espalier-lab-rank. Errors: kNotFound; what stood in the way.
Result<RanksRun> RunRanks(const lab::Lab& lab, const std::string& programs,
                          const RanksOptions& options);

// Starts a job of all hosts and waits until every rank's plan is acknowledged; ends it.
Result<void> StartTreeJob(const LabDaemons& daemons, const lab::Lab& lab, const std::string& name,
                          std::int64_t bytes, bool offload);
Result<void> StopTreeJob(const LabDaemons& daemons, const std::string& name);
// Polls until the job is READY by another plan than this one ("": any); the plan's number.
Result<std::string> AwaitPlan(const LabDaemons& daemons, const std::string& name,
                              const std::string& other_than);

// One edge of the plan in force, as the controller says.
struct PlannedEdge {
  std::string source;  // addresses
  std::string destination;
  std::uint16_t port = 0;
  std::string via;   // "": it does not cross the fabric
  double share = 0;  // of the bytes of a call
};
Result<std::vector<PlannedEdge>> ReadPlan(const LabDaemons& daemons, const std::string& name);

// What the spines' own counters say of a run.
struct CounterComparison {
  int edges = 0;              // that cross the fabric
  int silent_edges = 0;       // of these, without a packet
  int stray_connections = 0;  // packets on another spine than planned, or from no planned port
  // Payload of an edge over what was planned for it, the least and the greatest.
  double least_payload = 0;
  double most_payload = 0;
};
// Of `calls` calls of so many bytes by this plan, from the counts before and after. Spines count
// TCP to the port of RoCEv2 alone: the ranks' rendezvous is not in it.
CounterComparison CompareWithCounters(const std::vector<PlannedEdge>& plan, std::int64_t bytes,
                                      int calls, std::span<const lab::FlowCount> counts);

}  // namespace espalier::demo
