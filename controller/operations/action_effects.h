#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "common/fabric/topology.h"
#include "controller/agents/publisher.h"
#include "controller/forests/tree_jobs.h"
#include "controller/links/link_states.h"
#include "controller/operations/action.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/placement.h"
#include "controller/placement/port_verifier.h"
#include "controller/planning/failure_plans.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// What follows for flows and forests when operators act, or links change by what hosts and feeds
// say: links take their states, flows leave those that are lost (first those for which a plan is
// ready), and what was learned and planned is told.
// Thread safety: the controller's loop thread. The references must outlive it.
class ActionEffects final : public ActionTarget {
 public:
  // What it works on.
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

  // Links are up or down on the word of hosts and feeds: the intents stay as they are.
  void HandleHealthChange();

 private:
  // The plan for what has failed, if there is one, and its pushes.
  std::vector<Rerouted> TakeFailurePlan(const std::vector<fabric::LinkId>& changed);
  // All else that is due when links have changed: it looks at every flow. The moves.
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
