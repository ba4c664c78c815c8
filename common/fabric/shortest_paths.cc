#include "common/fabric/shortest_paths.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace espalier::fabric {

ShortestPaths::ShortestPaths(const Topology& topology, std::span<const int> tiers)
    : from_(tiers.size()), into_(tiers.size()) {
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    for (const DirectedLink link : topology.Outgoing(node)) {
      if (!topology.IsFabricLink(link.link)) continue;
      const NodeId next = topology.To(link);
      const int climb = tiers[next.Index()] - tiers[i];
      const Phase phase = climb > 0 ? kUp : climb == 0 ? kLevel : kDown;
      from_[i].push_back({link, next, phase});
      into_[next.Index()].push_back({link, node, phase});
    }
    std::ranges::stable_sort(from_[i], {}, &Hop::other);
  }
  for (Side* side : {&from_source_, &to_target_}) side->hops.assign(kPhases * tiers.size(), -1);
}

bool ShortestPaths::Side::Reach(State state, std::int32_t distance) {
  if (hops[state] >= 0) return false;
  hops[state] = distance;
  reached.push_back(state);
  return true;
}

void ShortestPaths::Side::Clear() {
  for (const State state : reached) hops[state] = -1;
  reached.clear();
  level = 0;
  depth = 0;
}

void ShortestPaths::AdvanceFromSource() {
  Side& side = from_source_;
  const std::size_t end = side.reached.size();
  ++side.depth;
  for (std::size_t i = std::exchange(side.level, end); i < end; ++i) {
    const State at = side.reached[i];
    for (const Hop& hop : from_[at / kPhases]) {
      if (hop.phase >= at % kPhases) side.Reach(StateOf(hop.other, hop.phase), side.depth);
    }
  }
}

void ShortestPaths::AdvanceFromTarget() {
  Side& side = to_target_;
  const std::size_t end = side.reached.size();
  ++side.depth;
  for (std::size_t i = std::exchange(side.level, end); i < end; ++i) {
    const State at = side.reached[i];
    for (const Hop& hop : into_[at / kPhases]) {
      if (hop.phase != at % kPhases) continue;
      for (int before = 0; before <= hop.phase; ++before) {
        side.Reach(StateOf(hop.other, before), side.depth);
      }
    }
  }
}

void ShortestPaths::TraceBack(std::vector<State> met) {
  for (std::int32_t before = from_source_.depth - 1; before >= 0; --before) {
    ++to_target_.depth;
    std::vector<State> earlier;
    for (const State at : met) {
      for (const Hop& hop : into_[at / kPhases]) {
        if (hop.phase != at % kPhases) continue;
        for (int phase = 0; phase <= hop.phase; ++phase) {
          const State state = StateOf(hop.other, phase);
          if (from_source_.hops[state] != before) continue;
          if (to_target_.Reach(state, to_target_.depth)) earlier.push_back(state);
        }
      }
    }
    met = std::move(earlier);
  }
}

bool ShortestPaths::Search(NodeId from, NodeId to) {
  from_source_.Clear();
  to_target_.Clear();
  from_source_.Reach(StateOf(from, kUp), 0);
  for (int phase = 0; phase < kPhases; ++phase) to_target_.Reach(StateOf(to, phase), 0);
  while (from_source_.LevelSize() > 0 && to_target_.LevelSize() > 0) {
    const bool from_source = from_source_.LevelSize() <= to_target_.LevelSize();
    from_source ? AdvanceFromSource() : AdvanceFromTarget();
    const Side& side = from_source ? from_source_ : to_target_;
    const Side& other = from_source ? to_target_ : from_source_;
    // The sides have not met before, so whatever both have reached now is on a shortest path.
    std::vector<State> met;
    std::copy_if(side.reached.begin() + static_cast<std::ptrdiff_t>(side.level), side.reached.end(),
                 std::back_inserter(met), [&](State state) { return other.hops[state] >= 0; });
    if (met.empty()) continue;
    TraceBack(std::move(met));
    return true;
  }
  return false;
}

ShortestPaths::Found ShortestPaths::Find(NodeId from, NodeId to, std::size_t most) {
  Found found;
  if (!Search(from, to)) return found;
  struct Frame {
    NodeId node;
    Phase phase = kUp;
    std::size_t next = 0;  // the next hop to try
  };
  found.length = static_cast<std::size_t>(to_target_.hops[StateOf(from, kUp)]);
  std::vector<DirectedLink> path;
  std::vector<Frame> stack{{from}};
  while (!stack.empty() && found.hops.size() < most * found.length) {
    Frame& top = stack.back();
    const std::vector<Hop>& hops = from_[top.node.Index()];
    const bool arrived = top.node == to;
    if (arrived) found.hops.insert(found.hops.end(), path.begin(), path.end());
    if (arrived || top.next == hops.size()) {
      stack.pop_back();
      if (!path.empty()) path.pop_back();
      continue;
    }
    const Hop& hop = hops[top.next++];
    if (hop.phase < top.phase) continue;
    const std::int32_t left = to_target_.hops[StateOf(top.node, top.phase)];
    if (to_target_.hops[StateOf(hop.other, hop.phase)] != left - 1) continue;
    path.push_back(hop.link);
    stack.push_back({hop.other, hop.phase});
  }
  return found;
}

}  // namespace espalier::fabric
