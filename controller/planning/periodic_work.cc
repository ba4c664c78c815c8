#include "controller/planning/periodic_work.h"

#include <utility>

#include "common/base/check.h"

namespace espalier::controller {

PeriodicWork::PeriodicWork(EventLoop& loop, std::vector<Task> tasks, Metrics& metrics)
    : loop_(loop) {
  for (Task& task : tasks) {
    ESPALIER_CHECK(task.interval >= kTick && task.interval % kTick == Duration{}, "task={}",
                   task.name);
    LatencyHistogram& seconds =
        metrics.MakeLatency("espalier_controller_periodic_seconds",
                            "Duration of one run of a periodic task", {{"task", task.name}});
    rows_.push_back({std::move(task), seconds});
  }
}

void PeriodicWork::Start() {
  timer_ = loop_.After(kTick, [this] { Tick(); });
}

void PeriodicWork::Tick() {
  timer_ = loop_.After(kTick, [this] { Tick(); });
  const std::int64_t tick = ticks_++;
  for (const Row& row : rows_) {
    if (tick % (row.task.interval / kTick) != 0) continue;
    const TimePoint begin = loop_.Now();
    row.task.run();
    row.seconds.ObserveSeconds(SecondsOf(loop_.Now() - begin));
  }
}

}  // namespace espalier::controller
