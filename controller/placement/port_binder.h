#pragma once

#include <cstdint>
#include <optional>

#include "common/fabric/path_map.h"
#include "controller/paths/path_learner.h"
#include "controller/planning/failure_plans.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Gives flows the source ports that lead to their paths: ports that the path map knows, else probes
// are asked for. A live flow that moves keeps its port until one is known that takes the new path,
// unless its path is dead. The other parts of placement decide paths, and call this.
// Thread safety: the controller's loop thread. The references must outlive it.
class PortBinder {
 public:
  PortBinder(State& state, PathLearner& learner) : state_(state), learner_(learner) {}

  // The port of a subflow from now on (0: none); its agent is told.
  void SetPort(FlowSlot slot, Subflow& subflow, std::uint16_t port);
  // kRouted if the map knows a port for each of the flow's paths, else kLearning and a probe is
  // asked for.
  void ChoosePorts(FlowSlot slot, wire::PathReason reason);
  // The flow's paths are decided: ports for them, or back to ECMP where there is none.
  void Settle(FlowSlot slot, wire::PathReason reason);
  // The map has learned something of the key of this flow, which is kLearning or kRouted: gives it
  // the ports that it waits for, and others for those that turned out to lead elsewhere.
  void Revisit(FlowSlot slot);
  // A subflow that leaves a broken path takes the port of its escape, if that is free and is known
  // to lead to its path.
  bool TakePort(Flow& flow, Subflow& subflow, const FailurePlans::BackupPath& backup);
  // Has those ports of the flow looked at that no probe has found to lead to their paths in the
  // fabric as it is.
  void Verify(FlowSlot slot);

 private:
  bool LeadsToItsPath(const Flow& flow, const Subflow& subflow) const;
  std::optional<fabric::PortEntry> FindPort(const Flow& flow, const Subflow& subflow,
                                            std::uint16_t preferred);
  // Has its subflows look for other ports where theirs were given up; whether there are such.
  bool LeaveQuarantinedPorts(Flow& flow);

  State& state_;
  PathLearner& learner_;
};

}  // namespace espalier::controller
