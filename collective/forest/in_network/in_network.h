#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/routed_trees.h"
#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// What switches that can copy (multicast) or add up (reduce) make redundant (ForestColl, section
// 4.5.6). All edges of a tree carry the same data. Once it has been at a switch that can copy, no
// other edge has to bring it there again: that edge begins at the switch. In trees that collect,
// read backwards, it ends at a switch that adds up, and the sum goes on along the first edge.
// The bound does not change (every rank still receives every shard), the traffic does.
class TreePruner {
 public:
  // All must stay alive.
  TreePruner(const fabric::Topology& topology, const TreeSchedule& plan, const Phase& phase);

  // For each edge of the tree, how many of its route's hops, counted from the parent, fall away.
  // Valid until the next call. O(hops).
  std::span<const std::int32_t> Prune(const RoutedTree& tree);
  // The switch where an edge with so many hops pruned begins.
  fabric::NodeId SwitchAt(const TreeEdge& edge, std::int32_t pruned) const;

 private:
  fabric::NodeId FarEnd(std::int32_t hop) const;

  const Phase& phase_;
  const RoutingTable& routes_;
  std::vector<bool> capable_;           // by node
  std::vector<std::uint32_t> reached_;  // by node: tree_ where the tree's data has been there
  std::uint32_t tree_ = 0;
  std::vector<std::int32_t> pruned_;
};

// Trees on each channel of each phase once pruned; Findings::loads has them before.
// Every pruned tree is checked by other means than those that pruned it: that all ranks still get
// the data (or send it, backwards) in some order.
// The plan must be one that the verifier has passed.
// Errors: kFailedPrecondition where Plan::stated_copies says something else than follows from the
// trees; kInternal where a check fails.
Result<std::vector<std::vector<std::int64_t>>> CountPrunedLoads(const fabric::Topology& topology,
                                                                const TreeSchedule& plan);

}  // namespace espalier::forest
