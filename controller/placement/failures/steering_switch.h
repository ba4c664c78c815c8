#pragma once

#include <vector>

#include "controller/intents/steering.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/arrivals/arrival_placer.h"
#include "controller/placement/failures/local_reroutes.h"
#include "controller/placement/loads/flow_moves.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Takes flows that operators do not want steered (Intents::steering), or whose packets a switch
// sprays (State::IsSprayed), off their ports, and steers them again. A flow that is not steered
// is kUnsteered and has no port of ours. If it has one path and the path map knows the path of its
// own port, it counts as load there, where nothing moves it. Otherwise a probe is requested; until
// its answer the flow adds no load. Thread safety: the controller's loop thread. The references
// must outlive it.
class SteeringSwitch {
 public:
  SteeringSwitch(const State& state, FlowDecisions& decisions, PathLearner& learner,
                 ArrivalPlacer& placer, PortBinder& ports, LocalReroutes& local_reroutes)
      : state_(state),
        decisions_(decisions),
        learner_(learner),
        placer_(placer),
        ports_(ports),
        local_reroutes_(local_reroutes) {}

  // By State::intents. O(log intents).
  bool IsSteered(const Flow& flow) const;
  // Makes a flow that was just admitted kUnsteered, if it would get paths.
  void TurnOff(FlowSlot slot);
  // The intents, or what is sprayed, have changed: turns flows off and places those that are
  // steered again, which moves no other flow. Returns the moves; a flow that is turned off moves to
  // ECMP. O(flows).
  std::vector<Rerouted> Apply();
  // The path map has changed for a key of this flow, which is kUnsteered.
  void Observe(FlowSlot slot);
  // Links have changed, so that switches may hash these flows onto other paths. O(flows).
  void HandleLinkChange();

 private:
  const State& state_;
  FlowDecisions& decisions_;
  PathLearner& learner_;
  ArrivalPlacer& placer_;
  PortBinder& ports_;
  LocalReroutes& local_reroutes_;
};

// Whether the decision about this flow depends on steering: it crosses the fabric, and no rank plan
// has its path.
bool IsSteerable(const Flow& flow);
// The path on which a flow with one path is while it is not steered; none: not known.
std::optional<fabric::PathIndex> OwnPathOf(const State& state, const Flow& flow,
                                           const fabric::Topology& topology);

}  // namespace espalier::controller
