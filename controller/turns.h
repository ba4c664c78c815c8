#pragma once

#include <functional>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "controller/state/event_history.h"

namespace espalier::controller {

// When turns of the controller are due: one is posted when the first of its modules asks for it,
// and does all that has come up by then. Knows whether the loop keeps up: a turn that begins long
// after it was asked for is late. Thread safety: the loop's thread. The references must outlive it.
class Turns {
 public:
  Turns(EventLoop& loop, EventHistory& history, std::function<void()> turn, Metrics& metrics);

  void Request();
  // A turn begins, whether it was asked for or not.
  void Begin();
  // The last turn began late: what can wait is to wait.
  bool is_late() const { return is_late_; }

 private:
  EventLoop& loop_;
  EventHistory& history_;
  std::function<void()> turn_;
  bool is_pending_ = false;
  TimePoint requested_;
  bool is_late_ = false;
  LatencyHistogram& wait_seconds_;
  Counter& late_turns_;
};

}  // namespace espalier::controller
