#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/base/event_loop.h"

namespace espalier::controller {

// Something that an operator may want to read about later.
struct HistoryEvent {
  std::uint64_t sequence = 0;  // 1, 2, ...
  TimePoint time;
  std::string kind;  // "link_failed", "agent_up", "flow_moved", ...
  std::string text;  // "link=leaf0--spine1 version=3 moved=2"
};

// The latest events, oldest first; at most `limit`.
// Thread safety: the controller's loop thread.
class EventHistory {
 public:
  explicit EventHistory(std::size_t limit = 10'000) : limit_(limit) {}

  // Also written to the log.
  void Record(TimePoint time, std::string kind, std::string text);
  // What an earlier controller recorded, oldest first, before anything else. Numbers go on well
  // above: of those that it gave last some may not have been stored.
  void Restore(std::vector<HistoryEvent> events);
  // Those after `sequence`, at most `most`.
  std::vector<HistoryEvent> Since(std::uint64_t sequence, std::size_t most) const;
  std::uint64_t last_sequence() const { return next_ - 1; }

 private:
  std::size_t limit_;
  std::uint64_t next_ = 1;
  std::deque<HistoryEvent> events_;
};

}  // namespace espalier::controller
