#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/sim/sim_network.h"
#include "deploy/simulation/event_log.h"
#include "deploy/simulation/observer.h"
#include "deploy/simulation/path_changes.h"
#include "deploy/simulation/scenario.h"

namespace espalier::simulation {

struct JobResult {
  std::string id;
  Duration ideal{};                     // of one period: IdealCommunication
  std::vector<Duration> communication;  // by period: the time in which its phases sent
  std::vector<int> ports_changed;       // by period: connections whose ports changed
  Duration unfinished{};                // what the last, unfinished period has sent for
};

struct RunResult {
  std::vector<JobResult> jobs;
  std::string loaded_link;  // the direction that carried the most busy connections at once
  int loaded_link_connections = 0;
  Duration loaded_link_at{};
  PathChanges path_changes;
  std::int64_t pushes = 0;
  std::int64_t full_pushes = 0;
  std::int64_t probes = 0;          // that the controller ordered
  std::int64_t mismatches = 0;      // ports that probes found on another path than known
  std::int64_t local_reroutes = 0;  // by agents, without the controller
  sim::SimNetwork::Statistics messages;
  std::map<Fault, FaultRecord> faults;
  std::vector<RunEvent> events;  // by time
  std::vector<std::string> violations;
  std::uint64_t callbacks = 0;  // simulated events: callbacks of all processes and of the fabric
  std::uint64_t trace = 0;      // SimWorld::TraceHash: equal for equal runs
};

struct RunOptions {
  std::uint64_t seed = 1;
  std::function<bool()> is_cancelled;          // asked every few milliseconds of virtual time
  std::function<void(Duration done)> on_time;  // called as often, with the virtual time
};

// Runs a scenario that ParseScenario accepts from its beginning to its end. The same scenario and
// seed give the same result.
// Errors: kUnavailable if it was cancelled.
Result<RunResult> RunScenario(const Scenario& scenario, const RunOptions& options);

}  // namespace espalier::simulation
