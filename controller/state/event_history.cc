#include "controller/state/event_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace espalier::controller {

void EventHistory::Record(TimePoint time, std::string kind, std::string text) {
  Log(LogLevel::kInfo, "event={} {}", kind, text);
  Add({next_++, time, std::move(kind), std::move(text), {}});
}

void EventHistory::RecordOf(std::string_view source, TimePoint time, std::string kind,
                            std::string text) {
  Source& of = sources_[std::string(source)];
  const auto known =
      of.kinds.try_emplace(kind, Kind{TokenBucket(limits_.per_second, limits_.burst, time), 0});
  Kind& limited = known.first->second;
  if (limited.allowance.Level(time) < 1) {
    ++limited.dropped;
    ++dropped_;
    of.has_dropped = has_untold_ = true;
    return;
  }
  limited.allowance.Take(1, time);
  Log(LogLevel::kInfo, "event={} {}", kind, text);
  Add({next_++, time, std::move(kind), std::move(text), std::string(source)});
}

void EventHistory::RecordDropped(TimePoint now) {
  if (!std::exchange(has_untold_, false)) return;
  for (auto& [name, source] : sources_) {
    if (!source.has_dropped) continue;
    if (source.dropped_told != TimePoint{} && now - source.dropped_told < limits_.tell_dropped) {
      has_untold_ = true;
      continue;
    }
    source.has_dropped = false;
    source.dropped_told = now;
    for (auto& [kind, of] : source.kinds) {
      const std::uint64_t dropped = std::exchange(of.dropped, 0);
      if (dropped == 0) continue;
      const std::string text = fmt::format("of={} kind={} count={}", name, kind, dropped);
      Log(LogLevel::kWarning, "event=events_dropped {}", text);
      Add({next_++, now, "events_dropped", text, name});
    }
  }
}

void EventHistory::Add(HistoryEvent event) {
  const std::uint64_t sequence = event.sequence;
  if (!event.source.empty()) {
    const auto known = sources_.try_emplace(event.source).first;
    known->second.sequences.push_back(sequence);
    of_sources_.emplace(sequence, known->first);
    if (known->second.sequences.size() > limits_.of_source) Evict(known->second);
  }
  events_.emplace(sequence, std::move(event));
  const bool has_many = of_sources_.size() > limits_.of_all_sources;
  if (!has_many && events_.size() <= limits_.events) return;
  const auto oldest = has_many ? of_sources_.begin() : of_sources_.find(events_.begin()->first);
  if (oldest == of_sources_.end()) {
    events_.erase(events_.begin());
  } else {
    Evict(sources_.at(std::string(oldest->second)));
  }
}

// Removes the source's oldest event.
void EventHistory::Evict(Source& source) {
  events_.erase(source.sequences.front());
  of_sources_.erase(source.sequences.front());
  source.sequences.pop_front();
}

void EventHistory::Restore(std::vector<HistoryEvent> events) {
  if (events.empty()) return;
  next_ = events.back().sequence + limits_.events;
  for (HistoryEvent& event : events) Add(std::move(event));
}

std::vector<HistoryEvent> EventHistory::Since(std::uint64_t sequence, std::size_t most) const {
  std::vector<HistoryEvent> events;
  for (auto at = events_.upper_bound(sequence); at != events_.end() && events.size() < most; ++at) {
    events.push_back(at->second);
  }
  return events;
}

}  // namespace espalier::controller
