#pragma once

#include "common/base/time/event_loop.h"

namespace espalier {

// How long a piece of work may hold its event loop. The work asks between two steps and leaves the
// rest for later. Thread safety: one thread. The loop must outlive it.
class TimeBudget {
 public:
  TimeBudget() = default;  // no limit
  TimeBudget(const EventLoop& loop, Duration limit) : loop_(&loop), end_(loop.Now() + limit) {}
  bool has_limit() const { return loop_ != nullptr; }
  bool IsSpent() const { return loop_ != nullptr && loop_->Now() >= end_; }

 private:
  const EventLoop* loop_ = nullptr;
  TimePoint end_{};
};

}  // namespace espalier
