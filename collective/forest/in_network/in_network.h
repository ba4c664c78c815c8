#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/routed_trees.h"
#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Removes tree traffic that in-network aggregation makes redundant: switches that can copy
// (multicast) or add up (reduce) (ForestColl, section 4.5.6). All edges of a tree carry the same
// data. Once the data has been at a switch that can copy, no other edge needs to bring it there
// again, so that edge begins at the switch. In reduce trees, read backwards, the edge ends at a
// switch that adds up, and the sum continues along the first edge. The bound does not change, as
// every rank still receives every shard; the traffic decreases.
class TreePruner {
 public:
  // All arguments must outlive this object.
  TreePruner(const fabric::Topology& topology, const TreeSchedule& schedule, const Phase& phase);

  // Returns for each edge of the tree how many hops of its route, counted from the parent, are
  // dropped. Valid until the next call. O(hops).
  std::span<const std::int32_t> Prune(const RoutedTree& tree);
  // The switch at which an edge begins after so many hops were pruned.
  fabric::NodeId SwitchAt(const TreeEdge& edge, std::int32_t pruned) const;

 private:
  fabric::NodeId FarEnd(std::int32_t hop) const;

  const Phase& phase_;
  const RoutingTable& routes_;
  std::vector<bool> capable_;           // by node
  std::vector<std::uint32_t> reached_;  // by node: tree_ if the tree's data has been there
  std::uint32_t tree_ = 0;
  std::vector<std::int32_t> pruned_;
};

// Counts the trees on each channel of each phase after pruning; Findings::loads counts them before.
// A check that is independent of the pruning confirms for every pruned tree that all ranks still
// receive the data (or send it, in reduce trees) in some order.
//
// Precondition: the verifier has accepted the schedule.
// Errors: kFailedPrecondition if TreeSchedule::stated_copies contradicts the trees; kInternal if a
// check fails.
Result<std::vector<std::vector<std::int64_t>>> CountPrunedLoads(const fabric::Topology& topology,
                                                                const TreeSchedule& schedule);

}  // namespace espalier::forest
