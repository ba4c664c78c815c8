#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/event_loop.h"

namespace espalier::controller {

// Work that goes on in the background of a loop, step by step, within a share of its time: after
// each step it rests for `rests` times as long as the step took, so that it takes one part in
// rests + 1 of the processor.
// Thread safety: the loop's thread.
class PacedWork {
 public:
  PacedWork(EventLoop& loop, int rests) : loop_(loop), rests_(rests) {}

  bool IsAwaited() const { return timer_ != nullptr; }
  // Runs the step once, when the rest after the last one is over, and no sooner than `least` from
  // now; where a step is awaited already, that one will do.
  void Request(Duration least, std::function<void()> step) {
    if (timer_) return;
    timer_ = loop_.After(std::max(pause_, least), [this, step = std::move(step)] {
      const TimerPtr done = std::move(timer_);  // keeps `step` for as long as it runs
      step();
    });
  }
  // How long the last step took, in the loop or beside it.
  void RecordDuration(Duration spent) { pause_ = rests_ * spent; }

 private:
  EventLoop& loop_;
  const int rests_;
  Duration pause_{};
  TimerPtr timer_;
};

}  // namespace espalier::controller
