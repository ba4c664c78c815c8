#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "controller/paths/path_learner.h"
#include "controller/placement/admission.h"
#include "controller/placement/arrival_placer.h"
#include "controller/placement/flow_moves.h"
#include "controller/placement/local_reroutes.h"
#include "controller/placement/port_binder.h"
#include "controller/placement/rerouter.h"
#include "controller/placement/what_if.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Decides paths and ports of every flow, by parts that each do one thing: admission, the placing of
// starts, ports, rerouting, local reroutes, and what an action would do. New flows and those whose
// path broke are placed one by one on what is there; WhatIf::Recompute assigns all anew on the
// operator's word.
//
// All decisions end in State (status, paths, ports, dirty); nothing is sent here.
// Thread safety: the controller's loop thread. The references must outlive it.
class Placement {
 public:
  Placement(State& state, PathLearner& learner, const ControllerOptions& options);

  // Admission. A flow that ends leaves room that the next assignment may use.
  void Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports) {
    admission_.Admit(slot, steered_ports);
  }
  void Release(FlowSlot slot);
  void EndAdoption(AgentId agent) { admission_.EndAdoption(agent); }

  using Placed = ArrivalPlacer::Placed;
  Placed PlaceNew(StartPredictor& predictor, std::size_t move_limit) {
    return starts_.PlaceNew(predictor, move_limit);
  }

  // The map has learned something of this key: gives ports to flows that wait for one, and other
  // ports to flows whose port turned out to lead elsewhere.
  void Revisit(const fabric::PortKey& key);
  void VerifyPorts(FlowSlot slot) { ports_.Verify(slot); }

  std::vector<Rerouted> TakeFailurePlan(FailurePlans& plans, LinkOrSwitch domain,
                                        std::span<const SubflowId> affected,
                                        const std::function<void(AgentId)>& decided) {
    return rerouter_.TakeFailurePlan(plans, domain, affected, decided);
  }
  std::vector<Rerouted> HandleLinkChange() { return rerouter_.HandleLinkChange(); }
  // A link is usable again: flows that had no path are placed.
  void PlaceUnroutable();

  LocalReroutes& local_reroutes() { return local_reroutes_; }
  WhatIf& what_if() { return what_if_; }

 private:
  State& state_;
  PortBinder ports_;
  Admission admission_;
  ArrivalPlacer starts_;
  Rerouter rerouter_;
  LocalReroutes local_reroutes_;
  WhatIf what_if_;
};

}  // namespace espalier::controller
