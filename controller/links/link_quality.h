#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "controller/links/path_quality.h"
#include "controller/links/slow_links.h"
#include "controller/links/suspect_paths.h"
#include "controller/paths/path_learner.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Finds slow links by what hosts measure of their flows, and alone writes State::slow_links.
// Flows leave a SLOW link as they leave a drained one: they keep their ports until ports of other
// paths are known. A bad path counts once a probe has confirmed that its port takes it.
// Thread safety: the controller's loop thread. The references must outlive it.
class LinkQuality {
 public:
  struct Callbacks {
    std::function<void()> on_change;  // State::slow_links has changed
    // Orders a probe of the port; its answer comes by HandleFindings.
    std::function<void(const UsedPort&)> verify;
  };
  LinkQuality(State& state, EventLoop& loop, Callbacks callbacks, Metrics& metrics);

  // A host measured a path of this flow.
  void HandleMeasurement(FlowSlot slot, const wire::FlowHealth& health);
  // The flow's host has left this path (an index into State::PathsOf) on its own. That is no sign
  // against the path if the flow's acknowledgements may take a link that is down. To be called
  // while the flow has the port that it left.
  void HandleLeft(FlowSlot slot, const wire::FlowHealth& report);
  // The flow delivers again after it has left a dead path.
  void HandleRecovered(FlowSlot slot);
  // Takes what probes have shown of the paths of ports.
  void HandleFindings(const PathLearner::Findings& findings);
  // Decides which links are slow, if this is enabled. To be called periodically.
  void Tick(bool is_enabled);

 private:
  // Totals of a subflow at its last measurement.
  struct Totals {
    AgentId agent;
    wire::LocalFlowId local;
    UsedPort used;
    std::uint32_t retries = 0;
    std::uint32_t congestion = 0;
    TimePoint at{};
  };

  // Whether the flow's acknowledgements may take a link that is down: where no agent steers them,
  // or has them on a dead path still.
  bool MayLoseAnswers(const Flow& flow) const;
  // Whether a link has gone down since the last call.
  bool HasLostLink();
  bool SetLinks(const Flow& flow, fabric::PathIndex path, PathSample& sample) const;
  // Removes the subflows that are bad and whose path is not confirmed.
  void RemoveUnconfirmed(std::vector<const PathQuality::Judged*>& judged);
  void Apply(const std::vector<SlowLinks::Change>& changes);

  State& state_;
  EventLoop& loop_;
  Callbacks callbacks_;
  PathQuality quality_;
  SuspectPaths suspects_;
  SlowLinks slow_;
  std::vector<std::vector<Totals>> totals_;  // by slot and subflow
  std::map<std::uint64_t, UsedPort> left_;   // the last port that hosts left, by subflow
  TimePoint judged_{};
  std::int64_t seen_version_ = -1;  // of the topology
  std::ptrdiff_t seen_down_ = 0;    // links
  Counter& found_slow_;
  Counter& refused_;
  Gauge& links_;
};

}  // namespace espalier::controller
