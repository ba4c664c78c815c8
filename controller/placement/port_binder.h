#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/fabric/path_map.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/return_paths.h"
#include "controller/planning/failure_plans.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Gives flows source ports that take their paths. Ports come from the path map; if it knows none,
// probes are requested. A flow in progress keeps its port until one for the new path is known,
// unless its path is dead. The other parts of placement decide the paths and call this class.
// Thread safety: the controller's loop thread. The references must outlive it.
class PortBinder {
 public:
  PortBinder(State& state, PathLearner& learner)
      : state_(state), learner_(learner), returns_(state, learner) {}

  // Sets the port of a subflow (0: none) and marks the flow for a push.
  void SetPort(FlowSlot slot, Subflow& subflow, std::uint16_t port);
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
  bool TakePort(Flow& flow, Subflow& subflow, const FailurePlans::BackupPath& backup);
  // Finds a port for the standby path of a subflow, or another one if its port takes another path.
  // Returns whether the port has changed. Probes are requested if none is known.
  bool BindStandby(FlowSlot slot, std::uint32_t index);
  // The subflow has no standby any more; its port becomes free.
  void ReleaseStandby(FlowSlot slot, Subflow& subflow);
  // Requests probes of those ports of the flow that are not verified.
  void Verify(FlowSlot slot);
  const ReturnPaths& returns() const { return returns_; }
  // The return path of a TCP flow's port, if it is known.
  std::optional<fabric::PathIndex> ReturnOf(const Flow& flow, std::uint16_t port) const;
  // Asks for the return paths of the ports that a TCP flow has or may need
  // (ReturnPaths::AskSpares).
  void AskReturns(FlowSlot slot);
  // Links have changed: LeaveDeadReturns is to look at all TCP flows. O(flows).
  void HandleLinkChange();
  // The map has changed for this key, which no flow has. If it is that of what comes back to flows
  // while a link is down, LeaveDeadReturns looks at them at once.
  void HandleReturn(const fabric::PortKey& back);
  // Looks at up to kReturnsAtOnce more of these; each takes some 10 to 100 us. Those whose
  // acknowledgements would come over a link that is down get other ports of their paths, as far as
  // there are any.
  void LeaveDeadReturns();
  static constexpr std::size_t kReturnsAtOnce = 256;

 private:
  // Whether the acknowledgements of this TCP flow would come over a link that is down, if the flow
  // had this port.
  bool HasDeadReturn(const Flow& flow, std::uint16_t port);
  bool HasDeadLink();
  // How doubtful it is that acknowledgements come back to this port: 0 (not at all) to 2. They
  // should take none of these paths.
  int DoubtOf(const Flow& flow, std::uint16_t port, std::span<const fabric::PathIndex> avoided);
  // The return paths that may die with the subflow, and that its standby port should not have: its
  // own one, and the opposite direction of its path. None but for TCP.
  std::vector<fabric::PathIndex> ReturnsAtRisk(const Flow& flow, const Subflow& subflow) const;
  // Orders probes of what comes back to this port, if the flow is of TCP.
  void AskReturn(const Flow& flow, std::uint16_t port);
  bool LeadsToItsPath(const Flow& flow, const Subflow& subflow) const;
  // Acknowledgements should come back to it over none of the paths `avoided`.
  std::optional<fabric::PortEntry> FindPort(const Flow& flow, fabric::PathIndex path, PortNeed need,
                                            std::uint16_t preferred,
                                            std::span<const fabric::PathIndex> avoided = {});
  // The same, without requesting any.
  std::optional<fabric::PortEntry> FindKnownPort(const Flow& flow, fabric::PathIndex path,
                                                 PortNeed need, std::uint16_t preferred,
                                                 std::span<const fabric::PathIndex> avoided);
  // If the subflow has just got its standby path: its port, which becomes free.
  std::uint16_t TakeOverStandby(FlowSlot slot, Subflow& subflow);
  // Marks subflows with a quarantined port as urgent, so that they get another one; returns whether
  // there are any.
  bool LeaveQuarantinedPorts(Flow& flow);

  State& state_;
  PathLearner& learner_;
  ReturnPaths returns_;
  std::int64_t seen_version_ = -1;  // of the topology, for which the next one is right
  bool has_dead_link_ = false;
  std::vector<FlowSlot> to_look_at_;  // some may have been closed since
};

}  // namespace espalier::controller
