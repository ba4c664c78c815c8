#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "controller/links/path_quality.h"
#include "controller/links/slow_links.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Finds slow links by what hosts measure of their flows, and alone writes State::slow_links.
// Flows leave a SLOW link as they leave a drained one: they keep their ports until ports of other
// paths are known.
// Thread safety: the controller's loop thread. The references must outlive it.
class LinkQuality {
 public:
  // `on_change`: State::slow_links has changed.
  LinkQuality(State& state, EventLoop& loop, std::function<void()> on_change, Metrics& metrics);

  // A host measured a path of this flow.
  void HandleMeasurement(FlowSlot slot, const wire::FlowHealth& health);
  // Decides which links are slow, if this is enabled. To be called periodically.
  void Tick(bool is_enabled);

 private:
  // Totals of a subflow at its last measurement.
  struct Totals {
    AgentId agent;
    wire::LocalFlowId local;
    std::uint16_t port = 0;
    std::uint32_t retries = 0;
    std::uint32_t congestion = 0;
    TimePoint at{};
  };

  bool SetLinks(const Flow& flow, fabric::PathIndex path, PathSample& sample) const;
  void Apply(const std::vector<SlowLinks::Change>& changes);

  State& state_;
  EventLoop& loop_;
  std::function<void()> on_change_;
  PathQuality quality_;
  SlowLinks slow_;
  std::vector<std::vector<Totals>> totals_;  // by slot and subflow
  TimePoint judged_{};
  Counter& found_slow_;
  Counter& refused_;
  Gauge& links_;
};

}  // namespace espalier::controller
