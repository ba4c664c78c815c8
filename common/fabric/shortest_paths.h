#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::fabric {

// Finds all shortest paths between two switches that climb, then may pass switches of equal tier,
// then descend. Links count in every state.
//
// Idea: a breadth-first search from both ends, each of which looks at the neighbourhood of its end
// only. On a fat-tree they meet half way, at the core switches, and most of the fabric is never
// looked at. The states of the search are switches together with the direction of the hop that led
// there, as a path must not climb after it has descended.
//
// Complexity: a search is O(switch links within half of the way of each end + paths x hops).
// Memory: O(switch links). Thread safety: one thread.
class ShortestPaths {
 public:
  // `tiers`: of each node; -1 if it is not a switch. The topology must outlive this.
  ShortestPaths(const Topology& topology, std::span<const int> tiers);

  struct Found {
    std::size_t length = 0;          // hops of each path
    std::vector<DirectedLink> hops;  // path by path
  };
  // No hops if there is no path. At most `most` paths; `from` and `to` differ.
  Found Find(NodeId from, NodeId to, std::size_t most);

 private:
  // The direction of a hop between tiers; it never goes back along a path.
  enum Phase : std::uint8_t { kUp, kLevel, kDown, kPhases };
  struct Hop {
    DirectedLink link;
    NodeId other;  // where it leads to, or comes from
    Phase phase = kUp;
  };
  // A state: a node, and the phase of the hop that led to it.
  using State = std::uint32_t;
  static State StateOf(NodeId node, int phase) {
    return static_cast<State>(kPhases * node.Index() + static_cast<std::size_t>(phase));
  }
  // What one end has found so far, level by level.
  struct Side {
    std::vector<std::int32_t> hops;  // from the end, by state; -1: not reached
    std::vector<State> reached;
    std::size_t level = 0;   // where the last level begins in `reached`
    std::int32_t depth = 0;  // of the last level

    bool Reach(State state, std::int32_t distance);
    std::size_t LevelSize() const { return reached.size() - level; }
    void Clear();
  };

  // Sets which states lie on shortest paths: to_target_.hops. False if there is no path.
  bool Search(NodeId from, NodeId to);
  void AdvanceFromSource();
  void AdvanceFromTarget();
  // Of the states where both sides have met: their path to the source.
  void TraceBack(std::vector<State> met);

  std::vector<std::vector<Hop>> from_;  // hops that leave a node, by their end and then by link
  std::vector<std::vector<Hop>> into_;
  Side from_source_;
  Side to_target_;
};

}  // namespace espalier::fabric
