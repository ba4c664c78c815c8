#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/time/event_loop.h"
#include "controller/placement/placement.h"
#include "controller/placement/verify/waiting_flows.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Notices what stays other than it could be, although nothing was reported: flows that wait
// (WaitingFlows), and a maximum load above the lower bound. If the latter lasts, and a
// recomputation would lower it, it is recorded in State::Notices; nothing moves. A load above a
// bound that nobody can reach is no fault, so a recomputation on trial can prove this verdict
// wrong, also if it needs a path that no port takes; without one there is none. Where phases of
// jobs are known, both figures are those of the busiest ones. Thread safety: the controller's loop
// thread. The references must outlive it.
class SpreadWatch {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr Duration kLasts = std::chrono::seconds(8);
  // Between trials that have found nothing better.
  static constexpr Duration kTrialInterval = std::chrono::seconds(30);

  SpreadWatch(State& state, Placement& placement, EventLoop& loop)
      : state_(state), placement_(placement), loop_(loop) {}

  // O(flows x hops) once a second, or less often if this takes more than a hundredth of the time.
  void Tick();

 private:
  void LookAtLoads(TimePoint now);

  State& state_;
  Placement& placement_;
  EventLoop& loop_;
  WaitingFlows waiting_;
  TimePoint next_{};
  std::optional<TimePoint> above_since_;  // of the bound
  TimePoint next_trial_{};
};

}  // namespace espalier::controller
