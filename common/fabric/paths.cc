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

bool HaveSeveralUplinks(const Topology& topology) {
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    if (topology.HasSeveralUplinks(NodeId(static_cast<std::int32_t>(i)))) return true;
  }
  return false;
}

// Hops from the nearest switch with NICs, over links in both directions, by node; kNoTier if there
// is none. NICs with several uplinks are a hop below their switches, and `leaf` is 1 then.
std::vector<int> DistancesFromLeaves(const Topology& topology, int leaf) {
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
    if (topology.HasSeveralUplinks(node)) reach(node, 0);
    for (const DirectedLink direction : topology.Outgoing(node)) {
      const NodeId next = topology.To(direction);
      if (!topology.IsFabricLink(direction.link)) continue;
      neighbours[i].push_back(next);
      neighbours[next.Index()].push_back(node);
    }
  }
  // NICs with several uplinks are in the queue before the switches of those that have one.
  for (std::size_t i = 0; i < distances.size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    if (topology.node(node).kind == NodeKind::kSwitch || topology.HasSeveralUplinks(node)) continue;
    for (const DirectedLink direction : topology.Outgoing(node)) {
      if (topology.LeavesHost(direction)) reach(topology.To(direction), leaf);
    }
  }
  while (!queue.empty()) {
    const NodeId node = queue.front();
    queue.pop_front();
    for (const NodeId next : neighbours[node.Index()]) reach(next, distances[node.Index()] + 1);
  }
  return distances;
}

// By node; `leaf` is the level of leaves.
std::vector<int> LevelsOf(const Topology& topology, int leaf) {
  std::vector<int> levels = DistancesFromLeaves(topology, leaf);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Node& node = topology.nodes()[i];
    if (node.kind != NodeKind::kSwitch) {
      const bool is_below = topology.HasSeveralUplinks(NodeId(static_cast<std::int32_t>(i)));
      levels[i] = is_below ? 0 : kNoTier;
    } else if (node.role != SwitchRole::kNone) {
      levels[i] = leaf + TierOfRole(node.role);
    } else {
      levels[i] = std::max(levels[i], leaf);
    }
  }
  return levels;
}

template <typename Predicate>
bool AllHops(const Topology& topology, const Path& path, Predicate holds) {
  return std::all_of(path.hops.begin(), path.hops.end(),
                     [&](DirectedLink hop) { return holds(topology.link(hop.link).state); });
}

}  // namespace

PathTable::PathTable(const Topology& topology)
    : topology_(topology),
      lowest_level_(HaveSeveralUplinks(topology) ? 1 : 0),
      levels_(LevelsOf(topology, lowest_level_)),
      search_(topology, levels_) {
  FindAttachments();
}

void PathTable::FindAttachments() {
  attachments_.resize(topology_.nodes().size());
  for (std::size_t i = 0; i < attachments_.size(); ++i) {
    const NodeId nic(static_cast<std::int32_t>(i));
    if (!topology_.IsFlowEndpoint(nic)) continue;
    if (topology_.HasSeveralUplinks(nic)) {
      attachments_[i] = Attachment{nic, std::nullopt};
      continue;
    }
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

std::string WhyUnattached(const Topology& topology, NodeId node) {
  const Node& of = topology.node(node);
  if (!topology.IsFlowEndpoint(node)) return of.id + " is not a NIC on a switch";
  if (of.uplink != UplinkChoice::kFixed)
    return of.id + " is not a NIC on exactly one switch, or with uplinks to several";
  return of.id + " has several uplinks, among which nothing can choose (\"uplink\": \"fixed\")";
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
