#include "common/fabric/paths.h"

#include <algorithm>
#include <deque>
#include <utility>

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

// Hops from the nearest switch with NICs, over links in both directions, by node; kNoTier if there
// is none.
std::vector<int> DistancesFromLeaves(const Topology& topology) {
  std::vector<int> distances(topology.nodes().size(), kNoTier);
  std::vector<std::vector<NodeId>> neighbours(distances.size());
  std::deque<NodeId> queue;
  const auto reach = [&](NodeId node, int hops) {
    if (distances[node.Index()] != kNoTier) return;
    distances[node.Index()] = hops;
    queue.push_back(node);
  };
  for (std::size_t i = 0; i < distances.size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    const bool is_switch = topology.node(node).kind == NodeKind::kSwitch;
    for (const DirectedLink direction : topology.Outgoing(node)) {
      const NodeId next = topology.To(direction);
      if (!is_switch && topology.LeavesHost(direction)) reach(next, 0);
      if (!topology.IsSwitchToSwitch(direction.link)) continue;
      neighbours[i].push_back(next);
      neighbours[next.Index()].push_back(node);
    }
  }
  while (!queue.empty()) {
    const NodeId node = queue.front();
    queue.pop_front();
    for (const NodeId next : neighbours[node.Index()]) reach(next, distances[node.Index()] + 1);
  }
  return distances;
}

std::vector<int> TiersOf(const Topology& topology) {
  std::vector<int> tiers = DistancesFromLeaves(topology);
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const Node& node = topology.nodes()[i];
    if (node.kind != NodeKind::kSwitch) {
      tiers[i] = kNoTier;
    } else {
      tiers[i] = node.role != SwitchRole::kNone ? TierOfRole(node.role) : std::max(tiers[i], 0);
    }
  }
  return tiers;
}

template <typename Predicate>
bool AllHops(const Topology& topology, const Path& path, Predicate holds) {
  return std::all_of(path.hops.begin(), path.hops.end(),
                     [&](DirectedLink hop) { return holds(topology.link(hop.link).state); });
}

}  // namespace

PathTable::PathTable(const Topology& topology)
    : topology_(topology), tiers_(TiersOf(topology)), search_(topology, tiers_) {
  FindAttachments();
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

PathTable::Pair PathTable::Enumerate(NodeId from, NodeId to) const {
  ShortestPaths::Found found = search_.Find(from, to, kMaxPathsPerPair);
  Pair pair{std::move(found.hops), {}};
  if (found.length == 0) return pair;
  pair.paths.reserve(pair.hops.size() / found.length);
  for (std::span<const DirectedLink> left = pair.hops; !left.empty();
       left = left.subspan(found.length)) {
    pair.paths.push_back({left.first(found.length)});
  }
  SortPaths(pair.paths);
  return pair;
}

void PathTable::SortPaths(std::vector<Path>& paths) const {
  const auto comes_before = [&](const Path& x, const Path& y) {
    for (std::size_t i = 0; i < x.hops.size(); ++i) {
      const NodeId x_to = topology_.To(x.hops[i]);
      const NodeId y_to = topology_.To(y.hops[i]);
      if (x_to != y_to) return x_to < y_to;
    }
    return std::lexicographical_compare(
        x.hops.begin(), x.hops.end(), y.hops.begin(), y.hops.end(),
        [](DirectedLink a, DirectedLink b) { return a.Index() < b.Index(); });
  };
  // Only parallel links make a difference to the order of the search.
  if (std::ranges::is_sorted(paths, comes_before)) return;
  std::ranges::sort(paths, comes_before);
}

std::optional<Attachment> PathTable::FindAttachment(NodeId nic) const {
  return attachments_[nic.Index()];
}

std::span<const Path> PathTable::Between(NodeId from_switch, NodeId to_switch) const {
  const auto [entry, is_new] = cache_.try_emplace({from_switch, to_switch});
  if (is_new) {
    entry->second =
        from_switch == to_switch ? Pair{{}, {Path{}}} : Enumerate(from_switch, to_switch);
  }
  return entry->second.paths;
}

bool IsUsable(const Topology& topology, const Path& path) {
  return AllHops(topology, path, [](LinkState state) { return state == LinkState::kUp; });
}

bool IsAlive(const Topology& topology, const Path& path) {
  return AllHops(topology, path, [](LinkState state) { return state != LinkState::kDown; });
}

std::optional<PathIndex> PathTable::Opposite(NodeId from_switch, NodeId to_switch,
                                             PathIndex path) const {
  const std::span<const DirectedLink> hops = Between(from_switch, to_switch)[path.Index()].hops;
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
