#include "collective/forest/in_network/in_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace espalier::forest {

using fabric::NodeId;
using fabric::Topology;

namespace {

constexpr NodeId kNowhere(-1);

bool IsCapable(const fabric::Node& node, const Phase& phase) {
  return node.kind == fabric::NodeKind::kSwitch && (phase.reversed ? node.reduce : node.multicast);
}

// Checks that a pruned tree still reaches every rank: nodes are marked as the data reaches them, in
// any order, until nothing changes.
class DeliveryCheck {
 public:
  DeliveryCheck(const Topology& topology, const TreeSchedule& schedule, const Phase& phase)
      : topology_(topology),
        schedule_(schedule),
        phase_(phase),
        has_data_(topology.nodes().size()) {}

  bool ReachesAll(const RoutedTree& tree, std::span<const std::int32_t> pruned) {
    std::fill(has_data_.begin(), has_data_.end(), false);
    has_data_[schedule_.ranks[tree.root].Index()] = true;
    std::vector<bool> done(tree.edges.size(), false);
    std::size_t left = tree.edges.size();
    for (bool changed = true; changed && left > 0;) {
      changed = false;
      for (std::size_t e = 0; e < tree.edges.size(); ++e) {
        if (done[e] || !Deliver(tree.edges[e], static_cast<std::size_t>(pruned[e]))) continue;
        done[e] = changed = true;
        --left;
      }
    }
    return left == 0;
  }

 private:
  // Sends data along the rest of the edge's route if the start of that rest has the data.
  bool Deliver(const TreeEdge& edge, std::size_t pruned) {
    std::vector<NodeId> path = {schedule_.ranks[edge.parent]};
    for (const std::int32_t hop : schedule_.forests[phase_.forest].routes.Hops(*edge.route)) {
      const Channel& channel = phase_.channels[static_cast<std::size_t>(hop)];
      path.push_back(phase_.reversed ? channel.from : channel.to);
    }
    const NodeId begin = path[pruned];
    if (!has_data_[begin.Index()]) return false;
    if (pruned > 0 && !IsCapable(topology_.node(begin), phase_)) return false;
    for (std::size_t i = pruned + 1; i < path.size(); ++i) has_data_[path[i].Index()] = true;
    return true;
  }

  const Topology& topology_;
  const TreeSchedule& schedule_;
  const Phase& phase_;
  std::vector<bool> has_data_;  // by node
};

// The copying or adding switches that a file states.
class StatedCopies {
 public:
  explicit StatedCopies(const TreeSchedule& schedule)
      : stated_(schedule.stated_copies.has_value()) {
    if (!stated_) return;
    for (const CopyPoint& copy : *schedule.stated_copies) {
      at_[{copy.phase, copy.tree_class, copy.child}] = copy.at;
    }
  }

  // Returns whether the file agrees with the tree; a file that states nothing agrees.
  bool Agree(std::size_t phase, const RoutedTree& tree, const TreeEdge& edge, NodeId at) const {
    if (!stated_) return true;
    const auto found = at_.find({phase, tree.tree_class, edge.child});
    return at == (found == at_.end() ? kNowhere : found->second);
  }

 private:
  bool stated_;
  std::map<std::tuple<std::size_t, std::size_t, Rank>, NodeId> at_;
};

}  // namespace

TreePruner::TreePruner(const Topology& topology, const TreeSchedule& schedule, const Phase& phase)
    : phase_(phase),
      routes_(schedule.forests[phase.forest].routes),
      reached_(topology.nodes().size(), 0) {
  for (const fabric::Node& node : topology.nodes()) capable_.push_back(IsCapable(node, phase));
}

NodeId TreePruner::FarEnd(std::int32_t hop) const {
  const Channel& channel = phase_.channels[static_cast<std::size_t>(hop)];
  return phase_.reversed ? channel.from : channel.to;
}

NodeId TreePruner::SwitchAt(const TreeEdge& edge, std::int32_t pruned) const {
  return FarEnd(routes_.Hops(*edge.route)[static_cast<std::size_t>(pruned) - 1]);
}

std::span<const std::int32_t> TreePruner::Prune(const RoutedTree& tree) {
  ++tree_;
  pruned_.clear();
  // Edges are visited from the root down, so an edge that reaches a switch does not depend on that
  // switch's copy.
  for (const TreeEdge& edge : tree.edges) {
    const std::span<const std::int32_t> hops = routes_.Hops(*edge.route);
    std::size_t begin = hops.size() - 1;
    while (begin > 0 && reached_[FarEnd(hops[begin - 1]).Index()] != tree_) --begin;
    pruned_.push_back(static_cast<std::int32_t>(begin));
    for (std::size_t h = begin; h + 1 < hops.size(); ++h) {
      const std::size_t node = FarEnd(hops[h]).Index();
      if (capable_[node]) reached_[node] = tree_;
    }
  }
  return pruned_;
}

Result<std::vector<std::vector<std::int64_t>>> CountPrunedLoads(const Topology& topology,
                                                                const TreeSchedule& schedule) {
  std::vector<std::vector<std::int64_t>> loads;
  const StatedCopies stated(schedule);
  const auto name_of = [&](Rank rank) -> const std::string& {
    return topology.node(schedule.ranks[rank]).id;
  };
  for (std::size_t p = 0; p < schedule.phases.size(); ++p) {
    const Phase& phase = schedule.phases[p];
    std::vector<std::int64_t>& load = loads.emplace_back(phase.channels.size(), 0);
    const RoutingTable& routes = schedule.forests[phase.forest].routes;
    TreePruner pruner(topology, schedule, phase);
    DeliveryCheck check(topology, schedule, phase);
    bool sound = true;
    std::string disagreement;
    VisitRoutedTrees(schedule.forests[phase.forest], [&](const RoutedTree& tree) {
      const std::span<const std::int32_t> pruned = pruner.Prune(tree);
      sound = check.ReachesAll(tree, pruned);
      for (std::size_t e = 0; e < tree.edges.size(); ++e) {
        const TreeEdge& edge = tree.edges[e];
        const NodeId at = pruned[e] > 0 ? pruner.SwitchAt(edge, pruned[e]) : kNowhere;
        if (disagreement.empty() && !stated.Agree(p, tree, edge, at)) {
          disagreement = fmt::format(
              "in tree {} of root {}, data between {} and {} {}, but the file says otherwise",
              tree.tree_class, name_of(tree.root), name_of(edge.parent), name_of(edge.child),
              at == kNowhere ? "is not copied or added up"
                             : "is copied or added up at " + topology.node(at).id);
        }
        const auto hops = routes.Hops(*tree.edges[e].route);
        for (const std::int32_t hop : hops.subspan(static_cast<std::size_t>(pruned[e]))) {
          load[static_cast<std::size_t>(hop)] += tree.count;
        }
      }
      return sound && disagreement.empty();
    });
    if (!disagreement.empty()) return Fail(ErrorCode::kFailedPrecondition, disagreement);
    if (!sound) {
      return Fail(ErrorCode::kInternal, "pruning cut ranks off from a tree (please report this)");
    }
  }
  return loads;
}

}  // namespace espalier::forest
