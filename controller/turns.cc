#include "controller/turns.h"

#include <utility>

namespace espalier::controller {
namespace {

// A turn that begins later than this after it was requested is late: the loop is overloaded.
constexpr Duration kLate = std::chrono::milliseconds(50);

}  // namespace

Turns::Turns(EventLoop& loop, EventHistory& history, std::function<void()> turn, Metrics& metrics)
    : loop_(loop),
      history_(history),
      turn_(std::move(turn)),
      wait_seconds_(
          metrics.MakeLatency("espalier_controller_turn_wait_seconds",
                              "Time from the first request for a turn until the turn began")),
      late_turns_(metrics.MakeCounter("espalier_controller_late_turns_total",
                                      "Turns that began late, after which arrivals move no flow in "
                                      "progress and planning pauses")) {}

void Turns::Request() {
  if (std::exchange(is_pending_, true)) return;
  requested_ = loop_.Now();
  loop_.Post(turn_);
}

void Turns::Begin() {
  const Duration waited = loop_.Now() - requested_;
  const bool was_pending = std::exchange(is_pending_, false);
  const bool was_late = std::exchange(is_late_, was_pending && waited > kLate);
  if (was_pending) wait_seconds_.ObserveSeconds(SecondsOf(waited));
  if (is_late_) late_turns_.Add();
  if (is_late_ == was_late) return;
  history_.RecordOf("controller", loop_.Now(), is_late_ ? "controller_late" : "controller_on_time",
                    "");
}

}  // namespace espalier::controller
