#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "common/fabric/topology_diff.h"
#include "controller/intents/intent.h"
#include "controller/state/state.h"

namespace espalier::controller {

// What would follow if the controller took another topology over.
struct TopologyEffects {
  std::vector<fabric::TopologyChange> changes;
  // Open flows between leaves: those whose path remains, those that need another one and have one,
  // and those that have none. Flows within a leaf before and after remain, too.
  std::int64_t flows_kept = 0;
  std::int64_t flows_moved = 0;
  std::int64_t flows_lost = 0;
  // Hosts with open flows that the other topology does not have: "h3 (12 flows)".
  std::vector<std::string> hosts_lost;
  // Links on which probes see flows in use, and which the other topology does not have, or has
  // elsewhere.
  std::vector<std::string> contradictions;
  // The intents that remain, and those that go because their link, node or host does: "drained link
  // leaf0--spine1". Jobs on forests go with a rank's node, and so do windows with what they cover.
  Intents intents;
  std::vector<std::string> dropped;
};

// O(flows x hops), besides the paths of `after` and the difference of the topologies.
TopologyEffects ComputeEffects(const State& state, const fabric::Topology& after);

// Whether the topology may be taken over. Errors: kAlreadyExists (it is the one in force),
// kFailedPrecondition (contradictions; without `force`, also flows that lose their hosts or paths).
Result<void> CheckEffects(const TopologyEffects& effects, bool force);

}  // namespace espalier::controller
