#pragma once

#include <functional>
#include <span>
#include <vector>

#include "controller/placement/arrival_placer.h"
#include "controller/placement/flow_moves.h"
#include "controller/placement/load_summary.h"
#include "controller/placement/port_binder.h"
#include "controller/planning/failure_plans.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Takes flows off paths that broke: by the plan for what has failed where there is one, else by
// placing them anew on what is there, without moving anybody else. Thread safety: the controller's
// loop thread. The references must outlive it.
class Rerouter {
 public:
  Rerouter(State& state, ArrivalPlacer& placer, PortBinder& ports)
      : state_(state), placer_(placer), ports_(ports) {}

  // This element has just failed, and left these ways stranded: those with a plan take it. Those
  // without are left to HandleLinkChange. Agent by agent, each of which is `decided` then: it need
  // not wait for the others. O(stranded log stranded).
  std::vector<Rerouted> TakeFailurePlan(FailurePlans& plans, LinkOrSwitch domain,
                                        std::span<const SubflowId> affected,
                                        const std::function<void(AgentId)>& decided);
  // Links have changed (State::topology). Paths that are no longer usable are given up, and their
  // flows placed anew: at once where the path is dead, at a message boundary where it is drained.
  std::vector<Rerouted> HandleLinkChange();

 private:
  // A stranded way, and where its plan takes it.
  struct Leaving {
    AgentId agent;
    FlowSlot slot;
    std::uint32_t index = 0;  // into Flow::ways
    FailurePlans::BackupPath to;
  };
  // By agent, flow and way.
  std::vector<Leaving> FindBackupPaths(FailurePlans& plans, LinkOrSwitch domain,
                                       std::span<const SubflowId> affected) const;
  // By way; those without a path stay where they are.
  Rerouted TakeBackupPaths(FlowSlot slot, std::span<const FailurePlans::BackupPath> backups);
  // As the fabric is (State::view has been told).
  bool IsOnBrokenPath(const Flow& flow) const;
  void DropUnusablePaths(Flow& flow);

  State& state_;
  ArrivalPlacer& placer_;
  PortBinder& ports_;
};

// The loads of the flows that are open now, were the links as in `topology` and had these flows
// not left their paths, as far as all of these were usable then. O(flows + links).
LoadSummary SummarizeBefore(const State& state, const fabric::Topology& topology,
                            std::span<const Rerouted> rerouted);

}  // namespace espalier::controller
