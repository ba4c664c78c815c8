#include "controller/event_history.h"

#include <algorithm>
#include <iterator>

#include "common/base/log.h"

namespace espalier::controller {

void EventHistory::Record(TimePoint time, std::string kind, std::string text) {
  Log(LogLevel::kInfo, "event={} {}", kind, text);
  events_.push_back({next_++, time, std::move(kind), std::move(text)});
  if (events_.size() > limit_) events_.pop_front();
}

void EventHistory::Restore(std::vector<HistoryEvent> events) {
  if (events.empty()) return;
  next_ = events.back().sequence + limit_;
  events_.assign(std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
  while (events_.size() > limit_) events_.pop_front();
}

std::vector<HistoryEvent> EventHistory::Since(std::uint64_t sequence, std::size_t most) const {
  const auto first = std::find_if(events_.begin(), events_.end(), [&](const HistoryEvent& event) {
    return event.sequence > sequence;
  });
  const auto count = std::min(most, static_cast<std::size_t>(events_.end() - first));
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace espalier::controller
