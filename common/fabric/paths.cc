#include "common/fabric/paths.h"

#include <algorithm>
#include <deque>

namespace espalier::fabric {
namespace {

constexpr int kNoTier = -1;

int TierOfRole(SwitchRole role) {
  switch (role) {
    case SwitchRole::kLeaf:
      return 0;
    case SwitchRole::kSpine:
      return 1;
    case SwitchRole::kCore:
      return 2;
    case SwitchRole::kNone:
      break;
  }
  return kNoTier;
}

template <typename Predicate>
bool AllHops(const Topology& topology, const Path& path, Predicate holds) {
  return std::all_of(path.hops.begin(), path.hops.end(),
                     [&](DirectedLink hop) { return holds(topology.link(hop.link).state); });
}

}  // namespace

PathTable::PathTable(const Topology& topology) : topology_(topology) {
  FindAttachments();
  CollectHops();
  ComputeTiers();
}

void PathTable::FindAttachments() {
  attachments_.resize(topology_.nodes().size());
  for (std::size_t i = 0; i < attachments_.size(); ++i) {
    const NodeId nic(static_cast<std::int32_t>(i));
    if (!topology_.IsFlowEndpoint(nic)) continue;
    int uplinks = 0;
    for (const DirectedLink direction : topology_.Outgoing(nic)) {
      if (!topology_.LeavesHost(direction)) continue;
      ++uplinks;
      attachments_[i] = Attachment{topology_.To(direction), direction};
    }
    if (uplinks != 1) attachments_[i].reset();
  }
}

void PathTable::CollectHops() {
  hops_from_.resize(topology_.nodes().size());
  hops_into_.resize(topology_.nodes().size());
  for (std::size_t i = 0; i < hops_from_.size(); ++i) {
    for (const DirectedLink hop : topology_.Outgoing(NodeId(static_cast<std::int32_t>(i)))) {
      if (!topology_.IsSwitchToSwitch(hop.link)) continue;
      hops_from_[i].push_back(hop);
      hops_into_[topology_.To(hop).Index()].push_back(hop);
    }
    std::stable_sort(
        hops_from_[i].begin(), hops_from_[i].end(),
        [&](DirectedLink x, DirectedLink y) { return topology_.To(x) < topology_.To(y); });
  }
}

void PathTable::ComputeTiers() {
  // Breadth-first search from the switches with NICs, over links in both directions.
  std::vector<int> distance(topology_.nodes().size(), kNoTier);
  std::deque<NodeId> queue;
  const auto reach = [&](NodeId node, int hops) {
    if (distance[node.Index()] != kNoTier) return;
    distance[node.Index()] = hops;
    queue.push_back(node);
  };
  for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
    for (const DirectedLink direction : topology_.Outgoing(NodeId(static_cast<std::int32_t>(i)))) {
      const bool from_switch = topology_.node(topology_.From(direction)).kind == NodeKind::kSwitch;
      if (!from_switch && topology_.LeavesHost(direction)) reach(topology_.To(direction), 0);
    }
  }
  while (!queue.empty()) {
    const NodeId node = queue.front();
    queue.pop_front();
    const int next = distance[node.Index()] + 1;
    for (const DirectedLink hop : hops_from_[node.Index()]) reach(topology_.To(hop), next);
    for (const DirectedLink hop : hops_into_[node.Index()]) reach(topology_.From(hop), next);
  }
  tiers_.assign(topology_.nodes().size(), kNoTier);
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const Node& node = topology_.nodes()[i];
    if (node.kind != NodeKind::kSwitch) continue;
    tiers_[i] = node.role != SwitchRole::kNone ? TierOfRole(node.role) : std::max(distance[i], 0);
  }
}

PathTable::Phase PathTable::PhaseOf(DirectedLink hop) const {
  const int from = Tier(topology_.From(hop));
  const int to = Tier(topology_.To(hop));
  if (from == to) return kLevel;
  return from < to ? kUp : kDown;
}

const std::vector<std::int32_t>& PathTable::DistancesTo(NodeId target) const {
  if (target_ == target) return distances_;
  target_ = target;
  distances_.assign(kPhases * topology_.nodes().size(), -1);
  struct State {
    NodeId node;
    int phase;  // phase of the hop that led to the node
  };
  std::deque<State> queue;
  const auto reach = [&](NodeId node, int phase, std::int32_t hops) {
    std::int32_t& known = distances_[kPhases * node.Index() + static_cast<std::size_t>(phase)];
    if (known >= 0) return;
    known = hops;
    queue.push_back({node, phase});
  };
  for (int phase = 0; phase < kPhases; ++phase) reach(target, phase, 0);
  while (!queue.empty()) {
    const State at = queue.front();
    queue.pop_front();
    const std::int32_t hops =
        distances_[kPhases * at.node.Index() + static_cast<std::size_t>(at.phase)];
    for (const DirectedLink hop : hops_into_[at.node.Index()]) {
      if (PhaseOf(hop) != at.phase) continue;
      for (int before = 0; before <= at.phase; ++before) {
        reach(topology_.From(hop), before, hops + 1);
      }
    }
  }
  return distances_;
}

std::vector<Path> PathTable::Enumerate(NodeId from, NodeId to) const {
  const std::vector<std::int32_t>& distances = DistancesTo(to);
  struct Frame {
    NodeId node;
    Phase phase;
    std::size_t next = 0;  // the next hop to try
  };
  std::vector<Path> paths;
  if (distances[kPhases * from.Index() + kUp] < 0) return paths;
  Path current;
  std::vector<Frame> stack{{from, kUp}};
  while (!stack.empty() && paths.size() < kMaxPathsPerPair) {
    Frame& top = stack.back();
    const auto& hops = hops_from_[top.node.Index()];
    const bool arrived = top.node == to;
    if (arrived) paths.push_back(current);
    if (arrived || top.next == hops.size()) {
      stack.pop_back();
      if (!current.hops.empty()) current.hops.pop_back();
      continue;
    }
    const DirectedLink hop = hops[top.next++];
    const Phase phase = PhaseOf(hop);
    if (phase < top.phase) continue;
    const std::int32_t to_go = distances[kPhases * top.node.Index() + top.phase];
    const NodeId next = topology_.To(hop);
    if (distances[kPhases * next.Index() + phase] != to_go - 1) continue;
    current.hops.push_back(hop);
    stack.push_back({next, phase});
  }
  SortPaths(paths);
  return paths;
}

void PathTable::SortPaths(std::vector<Path>& paths) const {
  std::sort(paths.begin(), paths.end(), [&](const Path& x, const Path& y) {
    for (std::size_t i = 0; i < x.hops.size(); ++i) {
      const NodeId x_to = topology_.To(x.hops[i]);
      const NodeId y_to = topology_.To(y.hops[i]);
      if (x_to != y_to) return x_to < y_to;
    }
    return std::lexicographical_compare(
        x.hops.begin(), x.hops.end(), y.hops.begin(), y.hops.end(),
        [](DirectedLink a, DirectedLink b) { return a.Index() < b.Index(); });
  });
}

std::optional<Attachment> PathTable::FindAttachment(NodeId nic) const {
  return attachments_[nic.Index()];
}

std::span<const Path> PathTable::Between(NodeId from_switch, NodeId to_switch) const {
  const auto [entry, is_new] = cache_.try_emplace({from_switch, to_switch});
  if (is_new) {
    entry->second =
        from_switch == to_switch ? std::vector<Path>(1) : Enumerate(from_switch, to_switch);
  }
  return entry->second;
}

bool IsUsable(const Topology& topology, const Path& path) {
  return AllHops(topology, path, [](LinkState state) { return state == LinkState::kUp; });
}

bool IsAlive(const Topology& topology, const Path& path) {
  return AllHops(topology, path, [](LinkState state) { return state != LinkState::kDown; });
}

std::optional<PathIndex> PathTable::Opposite(NodeId from_switch, NodeId to_switch,
                                             PathIndex path) const {
  const std::vector<DirectedLink>& hops = Between(from_switch, to_switch)[path.Index()].hops;
  const std::span<const Path> back = Between(to_switch, from_switch);
  const auto is_opposite = [&](const Path& other) {
    return std::equal(other.hops.begin(), other.hops.end(), hops.rbegin(), hops.rend(),
                      [](DirectedLink there, DirectedLink here) {
                        return there.link == here.link && there.forward != here.forward;
                      });
  };
  if (path.Index() < back.size() && is_opposite(back[path.Index()])) return path;
  const auto found = std::find_if(back.begin(), back.end(), is_opposite);
  if (found == back.end()) return std::nullopt;
  return PathIndex(static_cast<std::int32_t>(found - back.begin()));
}

std::string ViaNames(const Topology& topology, const Path& path) {
  std::string names;
  for (std::size_t i = 0; i + 1 < path.hops.size(); ++i) {
    if (!names.empty()) names += ',';
    names += topology.node(topology.To(path.hops[i])).id;
  }
  return names;
}

}  // namespace espalier::fabric
