#include "controller/state/event_persister.h"

#include <chrono>
#include <cstddef>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::size_t kEventsAtOnce = 1'000;

}  // namespace

EventPersister::EventPersister(EventHistory& history, Store& store, EventLoop& loop,
                               WallClock clock)
    : history_(history), store_(store), loop_(loop), clock_(std::move(clock)) {}

EventPersister::~EventPersister() { StoreNew(); }

void EventPersister::Restore(const std::vector<StoredEvent>& events) {
  const WallTime wall_now = clock_();
  std::vector<HistoryEvent> restored;
  for (const StoredEvent& event : events) {
    restored.push_back({event.sequence, loop_.Now() - (wall_now - event.time), event.kind,
                        event.text, event.source});
  }
  history_.Restore(std::move(restored));
  stored_ = history_.last_sequence();
}

void EventPersister::StoreNew() {
  const TimePoint now = loop_.Now();
  const WallTime wall_now = clock_();
  std::vector<StoredEvent> events;
  for (const HistoryEvent& event : history_.Since(stored_, kEventsAtOnce)) {
    const auto age = std::chrono::duration_cast<WallTime::duration>(now - event.time);
    events.push_back({event.sequence, wall_now - age, event.kind, event.text, event.source});
  }
  if (events.empty()) return;
  stored_ = events.back().sequence;
  store_.AppendEvents(std::move(events));
}

}  // namespace espalier::controller
