#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/agents/publisher.h"
#include "controller/forests/tree_jobs.h"
#include "controller/links/link_states.h"
#include "controller/operations/action.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/placement.h"
#include "controller/placement/verify/port_verifier.h"
#include "controller/planning/failure_plans.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Applies to flows and forests what follows from operators' actions and from link states that hosts
// and telemetry feeds report. Links take their states, and flows leave lost links, first those with
// a failure plan. The modules that learn and plan are then notified.
// Thread safety: the controller's loop thread. The references must outlive it.
class ActionEffects final : public ActionTarget {
 public:
  // The modules that it changes.
  struct Parts {
    State& state;
    LinkStates& link_states;
    PathLearner& learner;
    FailurePlans& failure_plans;
    Placement& placement;
    Publisher& publisher;
    PortVerifier& verifier;
    TreeJobs& jobs;
  };
  struct Callbacks {
    std::function<void()> apply_policies;  // of State::intents
    std::function<void()> request_turn;
    std::function<void()> turn;
  };
  ActionEffects(const Parts& parts, const ControllerOptions& options, EventLoop& loop,
                Callbacks callbacks, Metrics& metrics);

  ActionOutcome Try(const Intents& intents) override;
  AppliedAction Apply(const Intents& intents) override;
  ActionOutcome Reassign(const OperatorRequest& request) override;
  void Turn() override { callbacks_.turn(); }
  void ComputeOutcome(AppliedAction& applied) override;

  // Applies link states that hosts or feeds have changed. The intents stay as they are.
  void HandleHealthChange();

 private:
  // Moves the affected subflows to their backup paths and pushes these, if the failed domain has a
  // failure plan. Returns the moves.
  std::vector<Rerouted> TakeFailurePlan(const std::vector<fabric::LinkId>& changed);
  // Does the rest of what a link change requires; it visits every flow. Returns the moves.
  std::vector<Rerouted> FollowLinkChanges(const std::vector<fabric::LinkId>& changed);

  Parts parts_;
  State& state_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  Callbacks callbacks_;
  Counter& failure_hits_;
  Counter& failure_misses_;
  LatencyHistogram& failure_seconds_;
  Counter& recomputations_;
  LatencyHistogram& recompute_seconds_;
};

}  // namespace espalier::controller
