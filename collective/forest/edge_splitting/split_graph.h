#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/flow/flow_graph.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Stands for the source s as an end of a split.
inline constexpr std::int32_t kSource = -1;

// A split replaces `amount` of the arcs (from, w) and (w, to) of a node w by (from, to): edge
// splitting (ForestColl, section B.5.2). from = to drops the capacity, and so does to = kSource, a
// return to s, which no flow from s needs. from = kSource moves supply.
struct Split {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int64_t amount = 0;
};

// A removed node and the splits that paired all its capacity.
struct Removal {
  std::int32_t node = 0;
  std::vector<Split> splits;
};

// The paper's graph D with its source s: capacities between nodes and k * weight from s into every
// rank. From every rank, the excess of its incoming over its outgoing capacity returns to s (k *
// weight if the capacities alone are balanced). So all nodes are balanced, s included, as the
// theorem on edge splitting requires. Switches must be balanced, and no rank may have more outgoing
// than incoming capacity.
class SplitGraph {
 public:
  SplitGraph(const Problem& problem, const TreeCount& count);

  const FlowGraph& flows() const { return flows_; }
  FlowGraph& flows() { return flows_; }
  // The capacity from a node back to s.
  std::int64_t Return(std::int32_t node) const { return return_[static_cast<std::size_t>(node)]; }
  // The capacity into and out of a node; kSource stands for supply and return.
  std::int64_t In(std::int32_t from, std::int32_t node) const;
  std::int64_t Out(std::int32_t node, std::int32_t to) const;

  // A negative amount undoes a split.
  void Apply(std::int32_t node, std::int32_t from, std::int32_t to, std::int64_t amount);
  void Apply(const Removal& removal);
  void Undo(const Removal& removal);

 private:
  FlowGraph flows_;
  std::vector<std::int64_t> return_;
};

}  // namespace espalier::forest
