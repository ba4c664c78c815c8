#pragma once

#include <span>
#include <vector>

#include "common/base/event_loop.h"
#include "controller/links/link_health.h"
#include "controller/placement/placement.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Takes what agents report of their flows: flows that are opened, that go on and that end. Each
// goes to whom it concerns: the flow table, placement, the rounds of jobs, predictions, and, as a
// sign that links carry traffic, their health. Thread safety: the controller's loop thread. The
// references must outlive it.
class FlowIntake {
 public:
  FlowIntake(State& state, Placement& placement, StartPredictor& predictor, LinkHealth& link_health,
             const ControllerOptions& options, EventLoop& loop);

  enum class Outcome {
    kNothing,     // nothing is to be decided
    kNeedsTurn,   // there is something to decide, or to push
    kReportLost,  // a report before this one is missing, and nothing was taken of this one
  };
  Outcome Handle(AgentId id, const wire::FlowReport& report);

  // All that the agent has reported has ended.
  void CloseAll(AgentId id);
  // Closes the flows of agents that have been gone for the lease, and places flows that nobody has
  // found within the time for it. To be called now and then.
  void Tick();

 private:
  // The slots of those that are new.
  std::vector<FlowSlot> Open(AgentId id, const wire::FlowReport& report);
  // The flows whose reports foresight is to look at.
  std::span<const FlowSlot> TakeProgress(AgentId id, std::span<const wire::FlowProgress> progress);
  void Close(FlowSlot slot);
  void CloseMissing(AgentId id, const wire::FlowReport& report);

  State& state_;
  Placement& placement_;
  StartPredictor& predictor_;
  LinkHealth& link_health_;
  const ControllerOptions& options_;
  EventLoop& loop_;
};

}  // namespace espalier::controller
