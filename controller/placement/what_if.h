#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "controller/placement/flow_moves.h"
#include "controller/placement/load_summary.h"
#include "controller/placement/port_binder.h"
#include "controller/placement/reassigner.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

struct Recomputation {
  std::vector<FlowMove> moves;
  LoadSummary before;
  LoadSummary after;
};

// What an operator's action would do to flows, and the assignment of all flows on his word.
// Thread safety: the controller's loop thread. The references must outlive it.
class WhatIf {
 public:
  WhatIf(State& state, PortBinder& ports, const ControllerOptions& options)
      : state_(state), ports_(ports), options_(options), reassigner_(state, state.view, options) {}

  // Assigns all flows anew, from an empty fabric, by the algorithm of the options, and moves those
  // whose path differs, where that lowers the maximum load or (at the same load) makes the slower
  // jobs faster, by these weights; else nothing moves. Of assignments that are as good the one with
  // fewer bytes in flight to move, and never more than `max_moved_bytes` of them: where all anew
  // would take more, what there is is repaired as far as that goes. With dry_run only tells.
  Recomputation Recompute(const IntentById& weights, bool dry_run,
                          std::int64_t max_moved_bytes = Reassigner::kNoLimit);

  // What Rerouter::HandleLinkChange and then (with `new_weights`) Recompute would do if the fabric
  // were as `trial`, which differs from the present one in its links' states only. O(flows), as all
  // that is there is tried on a copy.
  Recomputation TryLinkChange(const fabric::Topology& trial, const IntentById* new_weights) const;

 private:
  // Where flows would be: an entry for each of their ways, kNoPath where it has none.
  using PathsBySlot = std::map<FlowSlot, std::vector<std::int32_t>>;
  // Of those whose paths break if the fabric becomes `trial`.
  PathsBySlot PathsAfter(const fabric::Topology& trial, FabricView& view) const;
  bool IsOnBrokenPath(const Flow& flow, const fabric::Topology& topology) const;
  std::vector<FlowMove> DescribeMoves(const PathsBySlot& after) const;

  State& state_;
  PortBinder& ports_;
  const ControllerOptions& options_;
  Reassigner reassigner_;
};

}  // namespace espalier::controller
