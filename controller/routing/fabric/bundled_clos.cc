#include "controller/routing/fabric/bundled_clos.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using fabric::NodeId;

constexpr std::uint32_t kNoGroup = 0xFFFF'FFFF;

class BundleFinder {
 public:
  BundleFinder(const fabric::Topology& topology, const fabric::PathTable& paths,
               std::span<const NodeId> ends)
      : topology_(topology),
        paths_(paths),
        ends_(ends),
        above_(topology.nodes().size()),
        group_of_node_(topology.nodes().size(), kNoGroup) {}

  std::optional<BundledClos> Run() {
    clos_.has_uplinks = paths_.leaf_level() > 0;
    const bool is_found =
        CollectLinks() && AddGroups() && AddBundles() && KeepApart() && !HasTooManyPaths();
    if (!is_found) return std::nullopt;
    return std::move(clos_);
  }

 private:
  // A link to the next tier: where it leads, and its DirectedLink::Index.
  using LinkUp = std::pair<NodeId, std::uint32_t>;

  bool CollectLinks() {
    for (std::size_t i = 0; i < topology_.links().size(); ++i) {
      const fabric::LinkId id(static_cast<std::int32_t>(i));
      if (!topology_.IsFabricLink(id)) continue;
      const fabric::Link& link = topology_.link(id);
      const int a = paths_.Level(link.a);
      const int b = paths_.Level(link.b);
      // What is above the spines is on no shortest path, as they reach all leaves.
      if (std::min(a, b) > paths_.leaf_level()) continue;
      if (a == b) {
        level_links_.emplace_back(link.a, link.b);
        continue;
      }
      if (std::abs(a - b) != 1 || link.directed) return false;
      const auto up = static_cast<std::uint32_t>(DirectedLink{id, a < b}.Index());
      above_[(a < b ? link.a : link.b).Index()].emplace_back(a < b ? link.b : link.a, up);
    }
    for (auto& links : above_) std::ranges::sort(links);
    return true;
  }

  // The nodes above, each once; empty if the numbers of links to them are not all `count`, which is
  // set if it is 0.
  std::vector<NodeId> NodesAbove(NodeId node, std::uint32_t& count) const {
    const auto& links = above_[node.Index()];
    std::vector<NodeId> nodes;
    for (std::size_t begin = 0; begin < links.size();) {
      std::size_t end = begin;
      while (end < links.size() && links[end].first == links[begin].first) ++end;
      if (count == 0) count = static_cast<std::uint32_t>(end - begin);
      if (end - begin != count) return {};
      nodes.push_back(links[begin].first);
      begin = end;
    }
    return nodes;
  }

  bool AddGroups() {
    std::uint32_t uplinks = 0;
    for (std::uint32_t end = 0; end < ends_.size(); ++end) {
      if (paths_.Level(ends_[end]) != 0) return false;
      std::vector<NodeId> leaves = {ends_[end]};
      if (clos_.has_uplinks) leaves = NodesAbove(ends_[end], uplinks);
      if (leaves.empty()) return false;
      std::uint32_t group = group_of_node_[leaves.front().Index()];
      if (group == kNoGroup) {
        group = static_cast<std::uint32_t>(clos_.groups.size());
        for (const NodeId leaf : leaves) {
          if (group_of_node_[leaf.Index()] != kNoGroup) return false;
          group_of_node_[leaf.Index()] = group;
        }
        clos_.groups.push_back({.ends = {}, .leaves = leaves, .first_leaf = clos_.leaves});
        clos_.leaves += static_cast<std::uint32_t>(leaves.size());
      }
      BundledClos::Group& joined = clos_.groups[group];
      if (joined.leaves != leaves) return false;
      clos_.group_of.push_back(group);
      clos_.place_of.push_back(static_cast<std::uint32_t>(joined.ends.size()));
      joined.ends.push_back(end);
      clos_.first_uplink.push_back(static_cast<std::uint32_t>(clos_.end_links.size()));
      if (!clos_.has_uplinks) continue;
      for (const auto& [leaf, link] : above_[ends_[end].Index()]) clos_.end_links.push_back(link);
    }
    clos_.uplinks = std::max(uplinks, 1U);
    return !ends_.empty();
  }

  bool AddBundles() {
    std::uint32_t members = 0;
    std::optional<std::vector<NodeId>> spines;
    for (const BundledClos::Group& group : clos_.groups) {
      for (const NodeId leaf : group.leaves) {
        const auto above = NodesAbove(leaf, members);
        if (!spines) spines = above;
        if (above.empty() || above != *spines) return false;
        for (const auto& [spine, link] : above_[leaf.Index()]) clos_.leaf_links.push_back(link);
      }
    }
    clos_.members = std::max(members, 1U);
    clos_.spines = static_cast<std::uint32_t>(spines->size());
    return true;
  }

  // A link between leaves of different groups would be a shorter path than any over a spine.
  bool KeepApart() const {
    return std::ranges::all_of(level_links_, [&](const auto& link) {
      const std::uint32_t a = group_of_node_[link.first.Index()];
      const std::uint32_t b = group_of_node_[link.second.Index()];
      return a == kNoGroup || b == kNoGroup || a == b;
    });
  }

  bool HasTooManyPaths() const {
    std::uint64_t most_leaves = 0;
    for (const auto& group : clos_.groups) {
      most_leaves = std::max<std::uint64_t>(most_leaves, group.leaves.size());
    }
    std::uint64_t paths = 1;
    for (const std::uint64_t choices :
         {most_leaves, most_leaves, std::uint64_t{clos_.spines}, std::uint64_t{clos_.members},
          std::uint64_t{clos_.members}, std::uint64_t{clos_.uplinks},
          std::uint64_t{clos_.uplinks}}) {
      paths *= choices;
      if (paths > fabric::PathTable::kMaxPathsPerPair) return true;
    }
    return false;
  }

  const fabric::Topology& topology_;
  const fabric::PathTable& paths_;
  std::span<const NodeId> ends_;
  std::vector<std::vector<LinkUp>> above_;  // by node
  std::vector<std::pair<NodeId, NodeId>> level_links_;
  std::vector<std::uint32_t> group_of_node_;  // of leaves
  BundledClos clos_;
};

// "2", or "2 to 4".
template <typename Count>
std::string CountsText(const std::vector<BundledClos::Group>& groups, const Count& count) {
  std::size_t least = count(groups.front());
  std::size_t most = least;
  for (const BundledClos::Group& group : groups) {
    least = std::min(least, count(group));
    most = std::max(most, count(group));
  }
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

}  // namespace

std::int32_t BundledClos::PathOf(std::uint32_t from, std::uint32_t to,
                                 const Choices& choices) const {
  std::uint32_t path = choices.out_leaf;
  if (group_of[from] != group_of[to]) {
    const auto in_leaves = static_cast<std::uint32_t>(groups[group_of[to]].leaves.size());
    path = (path * spines + choices.spine) * in_leaves + choices.in_leaf;
    path = path * uplinks + choices.out_member;
    path = (path * members + choices.up_member) * members + choices.down_member;
  } else {
    path = path * uplinks + choices.out_member;
  }
  return static_cast<std::int32_t>(path * uplinks + choices.in_member);
}

std::optional<BundledClos> FindBundledClos(const fabric::Topology& topology,
                                           const fabric::PathTable& paths,
                                           std::span<const NodeId> ends) {
  return BundleFinder(topology, paths, ends).Run();
}

std::string DescribeBundles(const BundledClos& clos) {
  const std::string spines = fmt::format("{} spine{}", clos.spines, clos.spines == 1 ? "" : "s");
  const std::string joined =
      clos.members == 1 ? ""
                        : fmt::format("; {} parallel links join each leaf and spine", clos.members);
  if (!clos.has_uplinks) {
    return fmt::format("two-tier Clos of bundles: {} leaves and {}{}", clos.leaves, spines, joined);
  }
  return fmt::format(
      "two-tier Clos below which the uplinks of NICs are chosen, too: {} group{} of {} NICs and {} "
      "leaves, {}{}",
      clos.groups.size(), clos.groups.size() == 1 ? "" : "s",
      CountsText(clos.groups, [](const auto& group) { return group.ends.size(); }),
      CountsText(clos.groups, [](const auto& group) { return group.leaves.size(); }), spines,
      joined);
}

}  // namespace espalier::controller
