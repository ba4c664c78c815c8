#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/metrics.h"
#include "controller/placement/arrivals/answering_ends.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/planning/phase_plan.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Follows open flows as they become busy and idle.
//
// A flow whose job repeats phases is parked while it is idle: it keeps its paths and ports, and its
// load does not count. When it becomes busy again, nothing has to be decided if it is on its
// planned paths, or if its paths have room for it. It then costs a table look-up here and nothing
// on its host. Only if it collides with other flows, for longer than a move takes, it gets other
// paths. A parked flow moves to its planned paths free of charge, as it has nothing in flight.
//
// Flows of jobs without learned phases count as load as long as they are open.
// Thread safety: the controller's loop thread. The references must outlive it.
class Bursts {
 public:
  Bursts(State& state, FlowDecisions& decisions, PortBinder& ports, const StartPredictor& predictor,
         const ControllerOptions& options, Metrics& metrics);

  // These flows have just been opened, and their first progress is known.
  void HandleOpened(std::span<const FlowSlot> slots);
  // These flows have become busy or idle, or have more to send. To be called before HandleEdges,
  // which does not concern flows that are answering then (AnsweringEnds).
  void HandleProgress(std::span<const MessageChange> changes);
  // These flows have become busy or idle, one after the other. True: a flow was marked as new and
  // needs a turn. O(hops) for each flow for which nothing has to be decided.
  bool HandleEdges(std::span<const MessageChange> edges);
  // Flows of these edges whose bursts have begun before the right ports were in force: their host
  // has not acknowledged them yet, or their paths are dead or beyond their even shares. Valid until
  // the next HandleEdges.
  std::span<const FlowSlot> unready() const { return unready_; }
  // Must be called before the flow is closed.
  void Forget(FlowSlot slot) {
    plan_.Forget(slot);
    phases_.Forget(slot);
    answering_.End(slot);
  }
  // Gives acknowledgements the paths back of flows that have moved: AnsweringEnds. To be called
  // before decisions are pushed.
  void FollowMoves() { answering_.FollowMoves(); }
  // Refreshes the plan. If it has changed, parks idle flows and moves them to their planned paths.
  // Returns how many flows are not planned any more. They count as load all the time from now on,
  // and may share links that the plan gave to them at different times.
  std::size_t RefreshPlan(TimePoint now);
  const PhasePlan& plan() const { return plan_; }

 private:
  bool IsTracked(FlowSlot slot) const;
  bool HandleBusy(FlowSlot slot);
  // Whether the flow's host has acknowledged the ports that are decided for it.
  bool HasItsPorts(FlowSlot slot) const;
  void Park(FlowSlot slot);
  bool HasPathsToKeep(const Flow& flow) const;
  // Whether a collision of this flow would be over before it had moved.
  bool IsTooShortToMove(FlowSlot slot) const;

  const State& state_;
  FlowPhases& phases_;  // State::phases
  FlowDecisions& decisions_;
  PortBinder& ports_;
  PhasePlan plan_;
  AnsweringEnds answering_;
  const ControllerOptions& options_;
  std::vector<FlowSlot> unready_;
  Counter& undecided_;
  Counter& decided_;
  Counter& unready_bursts_;
  Counter& moved_idle_;
};

}  // namespace espalier::controller
