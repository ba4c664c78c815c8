#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/flow/flow_graph.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// The source s, where a split begins or ends there.
inline constexpr std::int32_t kSource = -1;

// `amount` of the arcs (from, w) and (w, to) of a node w replaced by (from, to): edge splitting
// (section B.5.2). from = to drops the capacity; so does to = kSource, a way back to s, which no
// flow from s needs. from = kSource moves supply.
struct Split {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int64_t amount = 0;
};

// A node that is gone, and the splits that paired all its capacity.
struct Removal {
  std::int32_t node = 0;
  std::vector<Split> splits;
};

// The paper's D with its source: capacities between nodes, k * weight from s into every rank, and
// from every rank back to s what enters it more than leaves it (k * weight, where the capacities
// alone are balanced), so that all nodes are balanced, s included (what the theorem on edge
// splitting asks for). Switches must be balanced, and of no rank may more leave than enters.
class SplitGraph {
 public:
  SplitGraph(const Problem& problem, const TreeCount& count);

  const FlowGraph& flows() const { return flows_; }
  FlowGraph& flows() { return flows_; }
  // Capacity from a node back to s.
  std::int64_t Return(std::int32_t node) const { return return_[static_cast<std::size_t>(node)]; }
  // Capacity into and out of a node; kSource for supply and return.
  std::int64_t In(std::int32_t from, std::int32_t node) const;
  std::int64_t Out(std::int32_t node, std::int32_t to) const;

  // A negative amount takes a split back.
  void Apply(std::int32_t node, std::int32_t from, std::int32_t to, std::int64_t amount);
  void Apply(const Removal& removal);
  void Undo(const Removal& removal);

 private:
  FlowGraph flows_;
  std::vector<std::int64_t> return_;
};

}  // namespace espalier::forest
