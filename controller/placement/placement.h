#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/base/time/time_budget.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/arrivals/admission.h"
#include "controller/placement/arrivals/arrival_placer.h"
#include "controller/placement/balance/split_balancer.h"
#include "controller/placement/balance/what_if.h"
#include "controller/placement/failures/local_reroutes.h"
#include "controller/placement/failures/rerouter.h"
#include "controller/placement/failures/standbys.h"
#include "controller/placement/failures/steering_switch.h"
#include "controller/placement/loads/flow_moves.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/placement/ports/return_path_watch.h"
#include "controller/placement/ports/return_paths.h"
#include "controller/placement/revisits.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Decides the paths and ports of all flows. Each of its parts does one thing: admission, placing
// arrivals, binding ports, rerouting, local reroutes, standby paths, and what-if computations. New
// flows and flows with a broken path are placed one at a time on top of the present assignment.
// WhatIf::Recompute assigns all flows from scratch when an operator asks for it.
//
// All decisions are transitions of FlowDecisions; nothing is sent here.
// Thread safety: the controller's loop thread. The references must outlive it.
class Placement {
 public:
  static constexpr Duration kReliefInterval = std::chrono::seconds(1);

  Placement(State& state, PathLearner& learner, const ControllerOptions& options, Metrics& metrics);

  // Admission. A departing flow leaves room for the next assignment.
  void Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports);
  void Release(FlowSlot slot);
  void EndAdoption(AgentId agent) { admission_.EndAdoption(agent); }

  // Flows whose pair of NICs had too many already, since the last call (Admission).
  Admission::Refused TakeRefused() { return admission_.TakeRefused(); }

  using Placed = ArrivalPlacer::Placed;
  Placed PlaceNew(StartPredictor& predictor, std::size_t move_limit,
                  const TimeBudget& budget = {}) {
    return starts_.PlaceNew(predictor, move_limit, budget);
  }

  // The path map has changed for this key: RevisitSome is to give ports to flows that wait for one,
  // and other ports to flows whose port takes another path than expected.
  void HandleFindings(const fabric::PortKey& key) { revisits_.Add(key); }
  // Goes on with that until the budget is spent.
  void RevisitSome(const TimeBudget& budget);
  // Whether a turn has left work of PlaceNew or RevisitSome for the next one.
  bool HasWorkLeft() const { return starts_.HasWorkLeft() || !revisits_.IsEmpty(); }
  void VerifyPorts(FlowSlot slot) { ports_.Verify(slot); }

  std::vector<Rerouted> TakeFailurePlan(FailurePlans& plans, LinkOrSwitch domain,
                                        std::span<const SubflowId> affected,
                                        const std::function<void(AgentId)>& decided) {
    return rerouter_.TakeFailurePlan(plans, domain, affected, decided);
  }
  // Rerouter::HandleLinkChange. Then TCP flows whose acknowledgements come over a dead link get
  // other ports (ReturnPathWatch).
  std::vector<Rerouted> HandleLinkChange();
  // Operators have changed what is steered.
  std::vector<Rerouted> ApplySteering() { return steering_.Apply(); }
  // Marks unroutable flows between known leaves as new, after a link has become usable.
  void PlaceUnroutable();

  // Moves at most so many flows off links above their even share. Returns how many have moved.
  std::size_t Relieve(std::size_t move_limit);
  // Some links take flows again. Connections may stay open for weeks, so flows must not wait for
  // the next arrival to use these links. They wait for an interval, and for another one if a link
  // returns again, so that they do not follow one that flaps.
  void HandleReturnedLinks(TimePoint now) { relief_ = {now + kReliefInterval, "returned_links"}; }
  // Flows are not planned any more (Bursts::RefreshPlan), and may share links.
  void HandleLostPlan(TimePoint now) {
    if (!relief_) relief_ = {now, "lost_plan"};
  }
  // Some path may have become reachable, without any word about its links.
  void HandleReachablePaths(TimePoint now) {
    if (!relief_) relief_ = {now + kReliefInterval, "reachable_paths"};
  }
  // Relieves links after these changes, once an interval until nothing moves any more. To be called
  // periodically.
  struct Relief {
    TimePoint at{};
    const char* why = "";
    std::size_t moved = 0;
  };
  Relief RelieveLater(TimePoint now, std::size_t move_limit);

  // Divides flows with several paths again where equal parts load links unevenly (SplitBalancer).
  // To be called ten times a second.
  void BalanceSplits(TimePoint now) {
    // With equal parts again, links may be above their even share.
    if (splits_.Tick(now) == SplitBalancer::Outcome::kEqual) HandleReturnedLinks(now);
  }

  // Goes on with TCP flows whose acknowledgements may come over dead links (ReturnPathWatch). To be
  // called periodically.
  void RerouteDeadReturns() { return_watch_.RerouteDeadReturns(); }

  const ReturnPaths& returns() const { return returns_; }
  PortBinder& ports() { return ports_; }
  LocalReroutes& local_reroutes() { return local_reroutes_; }
  Standbys& standbys() { return standbys_; }
  const Standbys& standbys() const { return standbys_; }
  WhatIf& what_if() { return what_if_; }

 private:
  void Revisit(FlowSlot slot);

  const State& state_;
  FlowDecisions& decisions_;
  ReturnPaths returns_;
  PortBinder ports_;
  ReturnPathWatch return_watch_;
  Admission admission_;
  ArrivalPlacer starts_;
  Rerouter rerouter_;
  LocalReroutes local_reroutes_;
  Standbys standbys_;
  SplitBalancer splits_;
  SteeringSwitch steering_;
  WhatIf what_if_;
  Revisits revisits_;
  std::optional<Relief> relief_;  // the next one
};

}  // namespace espalier::controller
