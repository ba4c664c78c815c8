#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/fabric/ecmp/path_map.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/ports/return_paths.h"
#include "controller/planning/failure_plans.h"
#include "controller/state/flows/flow_decisions.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Gives flows source ports that take their paths. Ports come from the path map; if it knows none,
// probes are requested. A flow in progress keeps its port until one for the new path is known,
// unless its path is dead. The other parts of placement decide the paths and call this class, which
// has no state of its own. Thread safety: the controller's loop thread. The references must outlive
// it.
class PortBinder {
 public:
  PortBinder(const State& state, FlowDecisions& decisions, PathLearner& learner,
             ReturnPaths& returns)
      : state_(state), decisions_(decisions), learner_(learner), returns_(returns) {}

  // Chooses a port for each of the flow's paths. The flow becomes kRouted if the map knows all of
  // them, else kLearning, and probes are requested.
  void ChoosePorts(FlowSlot slot, wire::PathReason reason);
  // Chooses ports for a flow whose paths are decided; a flow without a path goes back to ECMP.
  void Settle(FlowSlot slot, wire::PathReason reason);
  // The map has changed for the key of this flow, which is kLearning or kRouted: gives it the ports
  // that it waits for, and replaces ports that take another path or are quarantined.
  void Revisit(FlowSlot slot);
  // Gives a subflow that leaves a broken path the port of its backup path. False, without any
  // change, if that port is taken or not known to take the path, or if its acknowledgements would
  // come over a link that is down.
  bool TakePort(FlowSlot slot, std::uint32_t index, const FailurePlans::BackupPath& backup);
  // Finds a port for the standby path of a subflow, or another one if its port takes another path.
  // Returns whether the port has changed. Probes are requested if none is known.
  bool BindStandby(FlowSlot slot, std::uint32_t index);
  // Requests probes of those ports of the flow that are not verified.
  void Verify(FlowSlot slot);
  // Asks for the return paths of the ports that a TCP flow has or may need
  // (ReturnPaths::AskSpares).
  void AskReturns(FlowSlot slot);
  ReturnPaths& returns() { return returns_; }
  const ReturnPaths& returns() const { return returns_; }

 private:
  // Of the acknowledgements that come back to this port.
  enum class ReturnPathRisk : std::uint8_t { kNone, kUnknown, kHigh };
  // They should take none of these paths.
  ReturnPathRisk RiskOf(const Flow& flow, std::uint16_t port,
                        std::span<const fabric::PathIndex> avoided) const;
  // The return paths that may die with the subflow, and that its standby port should not have: its
  // own one, and the opposite direction of its path. None but for TCP.
  std::vector<fabric::PathIndex> ReturnsAtRisk(const Flow& flow, const Subflow& subflow) const;
  bool LeadsToItsPath(const Flow& flow, const Subflow& subflow) const;
  // Acknowledgements should come back to it over none of the paths `avoided`.
  std::optional<fabric::PortEntry> FindPort(const Flow& flow, fabric::PathIndex path, PortNeed need,
                                            std::uint16_t preferred,
                                            std::span<const fabric::PathIndex> avoided = {});
  // The same, without requesting any.
  std::optional<fabric::PortEntry> FindKnownPort(const Flow& flow, fabric::PathIndex path,
                                                 PortNeed need, std::uint16_t preferred,
                                                 std::span<const fabric::PathIndex> avoided) const;
  // If the subflow has just got its standby path: its port, which becomes free.
  std::uint16_t TakeOverStandby(FlowSlot slot, std::uint32_t index);
  // Chooses the port of one subflow of a flow that has no port yet, or has some. False: no port
  // that takes its path is known.
  bool ChoosePort(FlowSlot slot, std::uint32_t index, bool has_none);
  // Whether a subflow whose path no port takes has got another one. Parked subflows keep their
  // path.
  bool LeaveUnreachablePath(FlowSlot slot, std::uint32_t index);
  // Marks subflows with a quarantined port as urgent, so that they get another one; returns whether
  // there are any.
  bool LeaveQuarantinedPorts(FlowSlot slot);

  const State& state_;
  FlowDecisions& decisions_;
  PathLearner& learner_;
  ReturnPaths& returns_;
};

}  // namespace espalier::controller
