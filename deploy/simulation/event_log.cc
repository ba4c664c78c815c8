#include "deploy/simulation/event_log.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace espalier::simulation {

void EventLog::Add(TimePoint at, std::string kind, std::string text) {
  events_.push_back({at - begin_, std::move(kind), std::move(text), ""});
}

// Events of an earlier controller that a later one restores have the numbers that they had.
void EventLog::Collect(const Cluster& cluster) {
  if (!cluster.has_controller()) return;
  const controller::EventHistory& history = cluster.controller().state().history;
  for (controller::HistoryEvent& event :
       history.Since(last_sequence_, std::numeric_limits<std::size_t>::max())) {
    last_sequence_ = event.sequence;
    events_.push_back({event.time - begin_, std::move(event.kind), std::move(event.text),
                       std::move(event.source)});
  }
}

std::vector<RunEvent> EventLog::Take() {
  std::ranges::stable_sort(events_, {}, &RunEvent::at);
  return std::exchange(events_, {});
}

}  // namespace espalier::simulation
