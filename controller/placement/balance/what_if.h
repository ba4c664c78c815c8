#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "controller/placement/balance/reassigner.h"
#include "controller/placement/loads/flow_moves.h"
#include "controller/placement/loads/load_summary.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

struct Recomputation {
  std::vector<FlowMove> moves;
  LoadSummary before;
  LoadSummary after;
  // A move leads to a path that no port takes, so that the load after may not come about.
  bool leads_astray = false;
};

// Computes what an operator's action would do to flows, and carries out recomputations.
// Thread safety: the controller's loop thread. The references must outlive it.
class WhatIf {
 public:
  // `view`: that of the state.
  WhatIf(const State& state, FabricView& view, FlowDecisions& decisions, PortBinder& ports,
         const ControllerOptions& options)
      : state_(state),
        decisions_(decisions),
        ports_(ports),
        options_(options),
        reassigner_(state, view, options) {}

  // Assigns all open flows from scratch and moves those whose path differs, if
  // Reassigner::FindBetter finds an improvement by these weights that moves at most
  // `max_moved_bytes` in flight; else moves nothing. With `dry_run`, only returns what it would do.
  //
  // It lowers what LoadSummary says, which does not follow bursts: flows in phases keep the paths
  // that are planned for all of these (PhasePlan), and the others are assigned around the busiest
  // phases. So it matters little which flows are busy at the moment: only among equally good
  // assignments, where bytes in flight decide.
  Recomputation Recompute(const IntentById& weights, bool dry_run,
                          std::int64_t max_moved_bytes = Reassigner::kNoLimit);

  // Returns what Rerouter::HandleLinkChange, SteeringSwitch::Apply and then (with `new_weights`)
  // Recompute would do if the fabric were `trial`, which differs from the present one only in link
  // states, and `steering` were in force. O(flows) for a copy of all present paths, besides placing
  // and recomputing.
  Recomputation TryChange(const fabric::Topology& trial, const IntentById& steering,
                          const IntentById* new_weights) const;

 private:
  // The paths that flows would have, by subflow (kNoPath: none).
  using PathsBySlot = std::map<FlowSlot, std::vector<std::int32_t>>;
  // How steering changes for flows, by slot; flows for which it does not change are left out.
  using SteeringBySlot = std::map<FlowSlot, bool>;
  SteeringBySlot SteeringChanges(const IntentById& steering) const;
  // The paths of those flows whose present paths break if the fabric becomes `trial`, or which are
  // steered from now on or no longer.
  PathsBySlot PathsAfter(const fabric::Topology& trial, FabricView& view,
                         const SteeringBySlot& steering) const;
  // What flows would reach with the link states of `trial` and these paths.
  ReachCounts ReachAfter(const fabric::Topology& trial, const PathsBySlot& after,
                         const SteeringBySlot& steering) const;
  // Reassigner::FindBetter for the elephants in no phase, around the busiest phases of the others.
  std::optional<Assignment> FindBetter(Reassigner& reassigner, const FabricView& view,
                                       const Elephants& elephants, const Assignment& present,
                                       std::span<const std::uint32_t> job_weights,
                                       std::int64_t max_moved_bytes) const;
  bool IsOnBrokenPath(FlowSlot slot, const fabric::Topology& topology) const;
  std::vector<FlowMove> DescribeMoves(const PathsBySlot& after,
                                      const SteeringBySlot& steering) const;

  const State& state_;
  FlowDecisions& decisions_;
  PortBinder& ports_;
  const ControllerOptions& options_;
  Reassigner reassigner_;
};

}  // namespace espalier::controller
