#pragma once

#include <functional>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/state/event_history.h"

namespace espalier::controller {

// Schedules the controller's turns. A turn is posted when the first module requests one, and
// handles all events that have arrived by then. A turn that begins long after its request is late,
// which shows that the loop does not keep up.
// Thread safety: the loop's thread. The references must outlive it.
class Turns {
 public:
  Turns(EventLoop& loop, EventHistory& history, std::function<void()> turn, Metrics& metrics);

  void Request();
  // A turn begins, whether it was requested or not.
  void Begin();
  // The last turn began late: work that can wait should.
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
