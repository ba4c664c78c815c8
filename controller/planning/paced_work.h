#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// Runs background work on an event loop, step by step, within a share of its time. After each step
// it rests for `rests` times the duration of the step, so it uses at most 1 / (rests + 1) of the
// processor.
// Thread safety: the loop's thread.
class PacedWork {
 public:
  PacedWork(EventLoop& loop, int rests) : loop_(loop), rests_(rests) {}

  bool IsAwaited() const { return timer_ != nullptr; }
  // Runs the step once, after the rest of the last step and not before `least` has passed. Does
  // nothing if a step is already scheduled.
  void Request(Duration least, std::function<void()> step) {
    if (timer_) return;
    timer_ = loop_.After(std::max(pause_, least), [this, step = std::move(step)] {
      const TimerPtr done = std::move(timer_);  // keeps `step` for as long as it runs
      step();
    });
  }
  // Records how long the last step took, on the loop or in another thread.
  void RecordDuration(Duration spent) { pause_ = rests_ * spent; }

 private:
  EventLoop& loop_;
  const int rests_;
  Duration pause_{};
  TimerPtr timer_;
};

}  // namespace espalier::controller
