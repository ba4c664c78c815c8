#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/base/time/token_bucket.h"

namespace espalier::controller {

// An event that an operator may want to read about later.
struct HistoryEvent {
  std::uint64_t sequence = 0;  // 1, 2, ...
  TimePoint time;
  std::string kind;    // "link_failed", "agent_up", "flow_moved", ...
  std::string text;    // "link=leaf0--spine1 version=3 moved=2"
  std::string source;  // the agent that caused it, or "strangers"; "": operator or controller
};

struct HistoryLimits {
  std::size_t events = 10'000;
  // How many of these events one source may have caused, and all sources together. Operators'
  // events thus stay readable whatever agents send.
  std::size_t of_source = 256;
  std::size_t of_all_sources = 5'000;
  // Events of one kind that a source may cause in a burst, and per second in the long run. A host
  // with 64 flows reports each of them when their path fails.
  double burst = 64;
  double per_second = 1;
  // How often a source's dropped events are reported.
  Duration tell_dropped = std::chrono::seconds(10);
};

// Keeps the latest events, oldest first, and bounds how many each source can cause. Dropped events
// are counted and reported by an event "events_dropped" of that source and kind.
// Cost: O(log events) an event. Memory: bounded by the limits; sources are the names of agents,
// which are bounded by AgentRegistry's users, and a few fixed ones.
// Thread safety: the controller's loop thread.
class EventHistory {
 public:
  explicit EventHistory(HistoryLimits limits = {}) : limits_(limits) {}

  // Records an event of an operator or of the controller itself, and writes it to the log.
  void Record(TimePoint time, std::string kind, std::string text);
  // Records an event that `source` caused and writes it to the log, or drops it beyond the limits.
  void RecordOf(std::string_view source, TimePoint time, std::string kind, std::string text);
  // Records how many events were dropped, for each source whose last such report is old enough.
  void RecordDropped(TimePoint now);
  // Takes the events of an earlier controller, oldest first, before any other call. New sequence
  // numbers start well above theirs, because its last events may not have been stored.
  void Restore(std::vector<HistoryEvent> events);
  // The events after `sequence`, at most `most`.
  std::vector<HistoryEvent> Since(std::uint64_t sequence, std::size_t most) const;
  std::uint64_t last_sequence() const { return next_ - 1; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Kind {
    TokenBucket allowance;
    std::uint64_t dropped = 0;  // not reported yet
  };
  struct Source {
    std::deque<std::uint64_t> sequences;  // its events that are kept, oldest first
    std::map<std::string, Kind, std::less<>> kinds;
    TimePoint dropped_told{};
    bool has_dropped = false;
  };

  void Add(HistoryEvent event);
  void Evict(Source& source);

  HistoryLimits limits_;
  std::uint64_t next_ = 1;
  std::uint64_t dropped_ = 0;
  bool has_untold_ = false;  // a source has dropped events that are not reported yet
  std::map<std::uint64_t, HistoryEvent> events_;          // by sequence
  std::map<std::uint64_t, std::string_view> of_sources_;  // sources by sequence, if any
  std::unordered_map<std::string, Source> sources_;
};

}  // namespace espalier::controller
