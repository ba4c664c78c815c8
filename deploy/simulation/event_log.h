#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/time/event_loop.h"
#include "deploy/simulation/cluster.h"

namespace espalier::simulation {

// What happened at one time: an action, its outcome, or an event of the controller.
struct RunEvent {
  Duration at{};     // since the beginning of the run
  std::string kind;  // "action", "action_done", "action_refused"; else the controller's
  std::string text;
  std::string source;  // the host or module that caused it; "": scenario or controller
};

// The events of a run: those that are added, and those of all controllers that ran.
// Thread safety: one thread.
class EventLog {
 public:
  // `begin`: the time of the run's beginning.
  explicit EventLog(TimePoint begin) : begin_(begin) {}

  void Add(TimePoint at, std::string kind, std::string text);
  // Takes the new events of the controller, if one runs. To be called before it dies, and more
  // often than its history overflows.
  void Collect(const Cluster& cluster);
  // All events by time.
  std::vector<RunEvent> Take();

 private:
  const TimePoint begin_;
  std::vector<RunEvent> events_;
  std::uint64_t last_sequence_ = 0;
};

}  // namespace espalier::simulation
