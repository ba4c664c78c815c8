#pragma once

#include <functional>
#include <span>
#include <vector>

#include "controller/placement/arrivals/arrival_placer.h"
#include "controller/placement/loads/flow_moves.h"
#include "controller/placement/loads/load_summary.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/planning/failure_plans.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Takes flows off broken paths: to the backup paths of a failure plan if there is one, else by
// placing them again without moving other flows.
// Thread safety: the controller's loop thread. The references must outlive it.
class Rerouter {
 public:
  Rerouter(const State& state, FlowDecisions& decisions, ArrivalPlacer& placer, PortBinder& ports)
      : state_(state), decisions_(decisions), placer_(placer), ports_(ports) {}

  // The failure domain has just failed, and these subflows are affected. Those with a backup path
  // take it; HandleLinkChange places the others. Proceeds agent by agent and calls `decided` after
  // each, so that its push need not wait for the others. O(affected log affected).
  std::vector<Rerouted> TakeFailurePlan(FailurePlans& plans, LinkOrSwitch domain,
                                        std::span<const SubflowId> affected,
                                        const std::function<void(AgentId)>& decided);
  // Links have changed (State::topology, State::view). Drops unusable paths and places their flows
  // again. Flows on dead paths move at once, those on drained paths at a message boundary.
  std::vector<Rerouted> HandleLinkChange();

 private:
  // An affected subflow and its backup path.
  struct Leaving {
    AgentId agent;
    FlowSlot slot;
    std::uint32_t index = 0;  // into Flow::subflows
    FailurePlans::BackupPath to;
  };
  // Sorted by agent, flow and subflow.
  std::vector<Leaving> FindBackupPaths(FailurePlans& plans, LinkOrSwitch domain,
                                       std::span<const SubflowId> affected) const;
  // `backups` are by subflow; subflows whose entry has no path stay where they are.
  Rerouted TakeBackupPaths(FlowSlot slot, std::span<const FailurePlans::BackupPath> backups);
  // By the link states in State::view and State::topology.
  bool IsOnBrokenPath(FlowSlot slot) const;

  const State& state_;
  FlowDecisions& decisions_;
  ArrivalPlacer& placer_;
  PortBinder& ports_;
};

// The loads before a change: of the flows that are open now, with the link states of `topology` and
// with the earlier paths of the rerouted flows. Flows with a path that is unusable in `topology` do
// not count. O(flows + links).
LoadSummary SummarizeBefore(const State& state, const fabric::Topology& topology,
                            std::span<const Rerouted> rerouted);

}  // namespace espalier::controller
