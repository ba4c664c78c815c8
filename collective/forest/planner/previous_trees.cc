#include "collective/forest/planner/previous_trees.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "collective/forest/model/routed_trees.h"
#include "collective/forest/verifier/tree_checker.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using fabric::Topology;

constexpr std::int32_t kNone = -1;

tl::unexpected<Error> Unsound(std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument,
              "the previous forest is not sound: " + std::string(what));
}

// Checks that the trees can be walked safely: shapes, trees, routes.
Result<void> CheckTrees(const TreeSchedule& schedule, const Phase& phase) {
  if (phase.forest >= schedule.forests.size()) return Unsound("a phase has no forest");
  const Forest& forest = schedule.forests[phase.forest];
  const std::size_t ranks = schedule.ranks.size();
  if (schedule.weights.size() != ranks || schedule.trees_per_weight < 1 || ranks < 2 ||
      static_cast<std::size_t>(forest.rank_count) != ranks ||
      forest.parents.size() != forest.classes.size() * ranks) {
    return Unsound("array sizes do not match");
  }
  for (const TreeClass& tree : forest.classes) {
    if (tree.root >= ranks || tree.count < 1) return Unsound("a class has no trees");
  }
  const TreeChecker checker(forest);
  Heights heights;
  if (checker.FindBadTree(heights)) return Unsound("a tree does not span its ranks");
  const TreeChecker::Usage usage = checker.CountUses();
  if (usage.missing || usage.overflow) return Unsound("an edge has no route");
  for (std::size_t arc = 0; arc < usage.uses.size(); ++arc) {
    std::int64_t left = usage.uses[arc];
    for (const Route& route : forest.routes.Routes(arc)) {
      if (route.count < 1) return Unsound("a route has no trees");
      left -= std::min(left, route.count);
      for (const std::int32_t hop : forest.routes.Hops(route)) {
        if (hop < 0 || static_cast<std::size_t>(hop) >= phase.channels.size()) {
          return Unsound("a hop does not exist");
        }
      }
    }
    if (left > 0) return Unsound("an edge has routes for fewer trees than use it");
  }
  return {};
}

class Translation {
 public:
  Translation(const Topology& topology, const Problem& problem, const TreeSchedule& schedule,
              const Topology& previous_topology)
      : problem_(problem), node_of_(previous_topology.nodes().size(), kNone) {
    for (std::size_t v = 0; v < problem.topology_node.size(); ++v) {
      const auto before = previous_topology.FindNode(topology.node(problem.topology_node[v]).id);
      if (before) node_of_[before->Index()] = static_cast<std::int32_t>(v);
    }
    for (const NodeId rank : schedule.ranks) {
      const std::int32_t node = Find(rank);
      rank_of_.push_back(node != kNone && problem.IsRank(node) ? static_cast<Rank>(node) : kNoRank);
    }
  }

  // Returns the hops of a path; none if it no longer exists or takes an arc twice.
  std::vector<std::int32_t> Hops(const Phase& phase, std::span<const std::int32_t> hops) const {
    std::vector<std::int32_t> arcs;
    for (const std::int32_t hop : hops) {
      const Channel& channel = phase.channels[static_cast<std::size_t>(hop)];
      const std::int32_t tail = Find(phase.reversed ? channel.to : channel.from);
      const std::int32_t head = Find(phase.reversed ? channel.from : channel.to);
      if (tail == kNone || head == kNone) return {};
      const std::int32_t arc = problem_.FindArc(tail, head);
      if (arc == kNone || std::ranges::find(arcs, arc) != arcs.end()) return {};
      arcs.push_back(arc);
    }
    return arcs;
  }

  // Returns the tree in terms of the problem; none if it no longer reaches all ranks, whatever its
  // paths are.
  std::optional<PreviousTrees::Tree> Translate(
      const RoutedTree& routed, const RoutingTable& table,
      std::span<const std::vector<std::int32_t>> routes) const {
    PreviousTrees::Tree tree;
    tree.root = rank_of_[routed.root];
    if (tree.root == kNoRank) return std::nullopt;
    tree.count = routed.count;
    const auto ranks = static_cast<std::size_t>(problem_.rank_count);
    tree.parents.assign(ranks, kNoRank);
    tree.routes.assign(ranks, kNone);
    std::size_t reached = 1;
    for (std::size_t e = routed.edges.size(); e-- > 0;) {
      const TreeEdge& edge = routed.edges[e];
      const Rank child = rank_of_[edge.child];
      // A removed rank that has no children left; its children end the tree below.
      if (child == kNoRank) continue;
      const std::size_t route = table.IndexOf(*edge.route);
      const Rank parent = rank_of_[edge.parent];
      if (parent == kNoRank) return std::nullopt;
      const bool leads = Leads(routes[route], parent, child);
      tree.parents[child] = parent;
      tree.routes[child] = leads ? static_cast<std::int32_t>(route) : kNone;
      tree.rerouted = tree.rerouted || !leads;
      ++reached;
    }
    return reached == ranks ? std::optional(std::move(tree)) : std::nullopt;
  }

 private:
  std::int32_t Find(NodeId before) const {
    return before.Index() < node_of_.size() ? node_of_[before.Index()] : kNone;
  }

  bool Leads(std::span<const std::int32_t> arcs, Rank from, Rank to) const {
    std::int32_t at = from;
    for (std::size_t i = 0; i < arcs.size(); ++i) {
      const Arc& arc = problem_.arcs[static_cast<std::size_t>(arcs[i])];
      if (arc.tail != at || (i > 0 && problem_.IsRank(at))) return false;
      at = arc.head;
    }
    return !arcs.empty() && at == to;
  }

  const Problem& problem_;
  std::vector<std::int32_t> node_of_;  // by node of the earlier topology
  std::vector<Rank> rank_of_;          // by rank of the earlier schedule
};

}  // namespace

std::int64_t PreviousTrees::Tree::Units(const Problem& problem, std::int64_t per_weight) const {
  const Int128 all = Int128{problem.weight[root]} * per_weight;
  return static_cast<std::int64_t>(std::min(all * count / of, all));
}

Result<PreviousTrees> FindPreviousTrees(const Topology& topology, const Problem& problem,
                                        const TreeSchedule& schedule,
                                        const Topology& previous_topology, bool reversed) {
  PreviousTrees found;
  for (const Phase& phase : schedule.phases) {
    if (phase.reversed != reversed) continue;
    if (auto sound = CheckTrees(schedule, phase); !sound) return Propagate(sound);
    const Translation translation(topology, problem, schedule, previous_topology);
    const Forest& forest = schedule.forests[phase.forest];
    found.trees_per_weight = schedule.trees_per_weight;
    found.routes.resize(forest.routes.RouteCount());
    for (std::size_t arc = 0; arc < forest.routes.ArcCount(); ++arc) {
      for (const Route& route : forest.routes.Routes(arc)) {
        found.routes[forest.routes.IndexOf(route)] =
            translation.Hops(phase, forest.routes.Hops(route));
      }
    }
    VisitRoutedTrees(forest, [&](const RoutedTree& routed) {
      const auto of = CheckedMultiply(schedule.trees_per_weight, schedule.weights[routed.root]);
      auto tree =
          of && *of > 0 ? translation.Translate(routed, forest.routes, found.routes) : std::nullopt;
      if (tree) {
        tree->of = *of;
        (tree->rerouted ? found.broken : found.trees).push_back(std::move(*tree));
      }
      return true;
    });
  }
  found.whole_trees = found.trees.size();
  found.whole_routes = found.routes.size();
  return found;
}

}  // namespace espalier::forest
