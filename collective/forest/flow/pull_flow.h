#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/forest/flow/flow_graph.h"

namespace espalier::forest {

// Computes maximum flows from the source s of a FlowGraph to one node after another. It is built
// for the question "does at least K reach every node?", whose answer is mostly yes and found
// nearby.
//
// Idea: work backwards from the sink. A breadth-first search over residual arcs stops as soon as it
// has seen enough supply. A depth-first search then pulls whole amounts along the levels and takes
// supply at every level on the way, while Dinic's algorithm takes it only at the deepest. One to
// three such phases suffice in most cases. Nodes whose question is answered can be contracted into
// s, so that later searches end at their border. All changes are undone through a list of touched
// entries, so the cost of a flow depends on what it visits and not on the size of the graph.
//
// Complexity: a flow takes at most (nodes with supply) * (nodes) phases of O(arcs); on networks, a
// few phases over a few arcs.
// Pitfall: the first flow into a graph without contracted nodes has to collect K from all over it.
class PullFlow {
 public:
  // The graph must stay alive; its capacities may change between calls.
  explicit PullFlow(FlowGraph& graph);

  // Returns how much of `need` does not reach the sink; 0 if all of it does.
  std::int64_t Deficit(std::int32_t sink, std::int64_t need);
  // Returns whether `need` reaches the sink. Cheaper than Deficit if it does not.
  bool Reaches(std::int32_t sink, std::int64_t need);
  // After a Deficit above 0: the nodes from which nothing more could be pulled. They are the sink
  // side of a minimum cut, sink first.
  const std::vector<std::int32_t>& SinkSide() const { return queue_; }

  // Makes the node part of the source from here on.
  void Contract(std::int32_t node) { contracted_[static_cast<std::size_t>(node)] = contraction_; }
  void ForgetContractions() { ++contraction_; }

  // Arcs visited so far: the measure of work.
  std::int64_t Steps() const { return steps_; }

 private:
  struct Frame {
    std::int32_t node = 0;
    std::int64_t want = 0;
    std::int64_t got = 0;
  };
  struct SavedPair {
    std::size_t out = 0;  // even
    std::int64_t forward = 0;
    std::int64_t backward = 0;
  };

  std::int64_t Run(std::int32_t sink, std::int64_t need, bool exact);
  // Returns the supply that the search has seen, at least `missing` if it stopped early.
  std::int64_t BuildLevels(std::int32_t sink, std::int64_t missing);
  std::int64_t Pull(std::int32_t sink, std::int64_t want);
  // Takes what the frame's node can get at once. Returns the next frame to pull from, or none if
  // the frame has what it wants or can get no more.
  std::optional<Frame> Advance(Frame& top);
  void MoveAlong(std::int32_t in, std::int64_t amount);
  void Undo();
  bool IsContracted(std::size_t node) const { return contracted_[node] == contraction_; }

  FlowGraph& graph_;
  std::vector<std::int64_t> supply_left_;  // by node; valid where levelled_ is current
  std::vector<std::uint32_t> contracted_;  // contraction_ where it is part of s
  std::vector<std::uint32_t> levelled_;    // phase_ where `level_` and `cursor_` are valid
  std::vector<std::int32_t> level_;
  std::vector<std::int32_t> cursor_;
  std::vector<std::uint32_t> drawn_;  // flow_ where supply_left_ is valid
  std::vector<std::uint32_t> saved_;  // by pair: flow_ where the pair is in saved_pairs_
  std::vector<SavedPair> saved_pairs_;
  std::vector<std::int32_t> queue_;
  std::vector<Frame> stack_;
  std::uint32_t contraction_ = 1;
  std::uint32_t phase_ = 0;
  std::uint32_t flow_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace espalier::forest
