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

#include "common/base/event_loop.h"
#include "common/base/token_bucket.h"

namespace espalier::controller {

// Something that an operator may want to read about later.
struct HistoryEvent {
  std::uint64_t sequence = 0;  // 1, 2, ...
  TimePoint time;
  std::string kind;    // "link_failed", "agent_up", "flow_moved", ...
  std::string text;    // "link=leaf0--spine1 version=3 moved=2"
  std::string source;  // who caused it, where others than operators did: an agent, "strangers"
};

struct HistoryLimits {
  std::size_t events = 10'000;
  // Of those, the latest that one source may have caused, and all sources together: what operators
  // did stays readable whatever agents send.
  std::size_t of_source = 256;
  std::size_t of_all_sources = 5'000;
  // Events of one kind that a source may cause at once, and in a second on the long run. A host of
  // 64 flows tells of all of them when its path dies.
  double burst = 64;
  double per_second = 1;
  // How often a source's dropped events are told of.
  Duration tell_dropped = std::chrono::seconds(10);
};

// The latest events, oldest first, with a bound on what each source of events can cause. What is
// dropped is counted, and told as an event "events_dropped" of that source and kind.
// Cost: O(log events) an event. Memory: bounded by the limits; sources are the names of agents,
// which are bounded by AgentRegistry's users, and a few fixed ones.
// Thread safety: the controller's loop thread.
class EventHistory {
 public:
  explicit EventHistory(HistoryLimits limits = {}) : limits_(limits) {}

  // Of an operator or the controller itself. Also written to the log, unless it is dropped.
  void Record(TimePoint time, std::string kind, std::string text);
  // Caused by others: `source` names them.
  void RecordOf(std::string_view source, TimePoint time, std::string kind, std::string text);
  // Tells of what was dropped, where it is time.
  void RecordDropped(TimePoint now);
  // What an earlier controller recorded, oldest first, before anything else. Numbers go on well
  // above: of those that it gave last some may not have been stored.
  void Restore(std::vector<HistoryEvent> events);
  // Those after `sequence`, at most `most`.
  std::vector<HistoryEvent> Since(std::uint64_t sequence, std::size_t most) const;
  std::uint64_t last_sequence() const { return next_ - 1; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Kind {
    TokenBucket allowance;
    std::uint64_t dropped = 0;  // untold yet
  };
  struct Source {
    std::deque<std::uint64_t> sequences;  // of its events that are kept, oldest first
    std::map<std::string, Kind, std::less<>> kinds;
    TimePoint dropped_told{};
    bool has_dropped = false;
  };

  void Add(HistoryEvent event);
  void Evict(Source& source);

  HistoryLimits limits_;
  std::uint64_t next_ = 1;
  std::uint64_t dropped_ = 0;
  bool has_untold_ = false;  // some source has dropped events that were not told of
  std::map<std::uint64_t, HistoryEvent> events_;          // by sequence
  std::map<std::uint64_t, std::string_view> of_sources_;  // whose they are, of those that have one
  std::unordered_map<std::string, Source> sources_;
};

}  // namespace espalier::controller
