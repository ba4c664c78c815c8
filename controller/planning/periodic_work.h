#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"

namespace espalier::controller {

// The work that a daemon does again and again, as a table. Tasks that are due at the same time run
// in the order of the table. Time is counted in ticks, so a loop that does not keep up does all of
// this work less often and never catches up. The durations of each task are a histogram,
// espalier_controller_periodic_seconds, with the task's name as its label.
// Thread safety: the loop's thread. The references must outlive it.
class PeriodicWork {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(100);

  struct Task {
    Duration interval{};  // a multiple of kTick
    std::string name;     // of the metric's label; unique
    std::function<void()> run;
  };

  PeriodicWork(EventLoop& loop, std::vector<Task> tasks, Metrics& metrics);

  // All tasks run one tick after this call for the first time. Call once.
  void Start();

 private:
  struct Row {
    Task task;
    LatencyHistogram& seconds;
  };
  void Tick();

  EventLoop& loop_;
  std::vector<Row> rows_;
  std::int64_t ticks_ = 0;
  TimerPtr timer_;
};

}  // namespace espalier::controller
