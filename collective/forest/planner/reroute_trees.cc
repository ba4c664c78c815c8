#include "collective/forest/planner/reroute_trees.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collective/forest/model/routable.h"

namespace espalier::forest {
namespace {

constexpr std::int32_t kNone = -1;
constexpr int kMaxParts = 8;  // per tree
using Tree = PreviousTrees::Tree;

class Rerouter {
 public:
  Rerouter(const Problem& problem, const TreeCount& count, PreviousTrees& previous)
      : problem_(problem),
        count_(count),
        previous_(previous),
        left_(count.capacity),
        first_arc_(static_cast<std::size_t>(problem.node_count) + 1, 0),
        reached_(static_cast<std::size_t>(problem.node_count)) {
    for (const Arc& arc : problem.arcs) ++first_arc_[static_cast<std::size_t>(arc.tail) + 1];
    for (std::size_t v = 1; v < first_arc_.size(); ++v) first_arc_[v] += first_arc_[v - 1];
  }

  void Run() {
    previous_.trees.resize(previous_.whole_trees);
    previous_.routes.resize(previous_.whole_routes);
    for (const Tree& tree : previous_.trees) {
      const std::int64_t units = UnitsOf(tree);
      if (!Take(tree.routes, units)) Give(tree.routes, units);
    }
    for (const Tree& tree : previous_.broken) Reroute(tree);
  }

 private:
  std::int64_t UnitsOf(const Tree& tree) const {
    return tree.Units(problem_, count_.trees_per_weight);
  }

  void Reroute(const Tree& broken) {
    std::int64_t missing = UnitsOf(broken);
    std::int64_t part = missing;
    for (int parts = 0; missing > 0 && parts < kMaxParts && part > 0;) {
      Tree tree = broken;
      tree.count = part;
      tree.of = count_.trees_per_weight * problem_.weight[broken.root];
      if (!AddPaths(tree)) {
        part /= 2;
        continue;
      }
      previous_.trees.push_back(std::move(tree));
      ++parts;
      missing -= part;
      part = std::min(part, missing);
    }
  }

  // Takes the capacity that the tree needs; returns false and takes nothing if there is not enough.
  bool AddPaths(Tree& tree) {
    const std::size_t routes = previous_.routes.size();
    bool found = Take(tree.routes, tree.count);
    for (std::size_t child = 0; found && child < tree.parents.size(); ++child) {
      if (tree.parents[child] == kNoRank || tree.routes[child] != kNone) continue;
      std::vector<std::int32_t> path =
          FindPath(tree.parents[child], static_cast<std::int32_t>(child), tree.count);
      found = !path.empty() && IsRoutable(problem_, path);
      if (!found) break;
      tree.routes[child] = static_cast<std::int32_t>(previous_.routes.size());
      for (const std::int32_t arc : path) left_[static_cast<std::size_t>(arc)] -= tree.count;
      previous_.routes.push_back(std::move(path));
    }
    if (found) return true;
    Give(tree.routes, tree.count);
    previous_.routes.resize(routes);
    return false;
  }

  // Takes capacity along routes; returns false if that overdraws an arc.
  bool Take(const std::vector<std::int32_t>& routes, std::int64_t units) {
    bool fits = true;
    for (const std::int32_t route : routes) {
      if (route == kNone) continue;
      for (const std::int32_t arc : previous_.routes[static_cast<std::size_t>(route)]) {
        fits = (left_[static_cast<std::size_t>(arc)] -= units) >= 0 && fits;
      }
    }
    return fits;
  }
  void Give(const std::vector<std::int32_t>& routes, std::int64_t units) { Take(routes, -units); }

  struct Reached {
    std::uint32_t search = 0;  // number of the search that reached it last
    std::int32_t steps = 0;
    std::int64_t width = 0;  // width of the path to it
    std::int32_t arc = kNone;
  };

  // Searches breadth-first. A node's width is final when the node is visited, as all nodes nearer
  // to the start have been visited before.
  std::vector<std::int32_t> FindPath(std::int32_t from, std::int32_t to, std::int64_t units) {
    ++search_;
    open_.assign(1, from);
    Start(from);
    for (std::size_t next = 0; next < open_.size(); ++next) {
      const Reached& here = reached_[static_cast<std::size_t>(open_[next])];
      if (open_[next] == to) return PathTo(to, from);
      if (problem_.IsRank(open_[next]) && open_[next] != from) continue;
      const auto tail = static_cast<std::size_t>(open_[next]);
      for (std::int32_t a = first_arc_[tail]; a < first_arc_[tail + 1]; ++a) {
        const std::int64_t room = left_[static_cast<std::size_t>(a)];
        if (room < units) continue;
        Reach(problem_.arcs[static_cast<std::size_t>(a)].head, here.steps + 1,
              std::min(here.width, room), a);
      }
    }
    return {};
  }

  void Start(std::int32_t node) {
    reached_[static_cast<std::size_t>(node)] = {search_, 0, INT64_MAX, kNone};
  }

  void Reach(std::int32_t node, std::int32_t steps, std::int64_t width, std::int32_t arc) {
    Reached& reached = reached_[static_cast<std::size_t>(node)];
    if (reached.search != search_) {
      open_.push_back(node);
    } else if (reached.steps != steps || reached.width >= width) {
      return;
    }
    reached = {search_, steps, width, arc};
  }

  std::vector<std::int32_t> PathTo(std::int32_t node, std::int32_t from) const {
    std::vector<std::int32_t> path;
    while (node != from) {
      path.push_back(reached_[static_cast<std::size_t>(node)].arc);
      node = problem_.arcs[static_cast<std::size_t>(path.back())].tail;
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  const Problem& problem_;
  const TreeCount& count_;
  PreviousTrees& previous_;
  std::vector<std::int64_t> left_;       // remaining capacity, by arc
  std::vector<std::int32_t> first_arc_;  // by tail; arcs are sorted by tail
  std::vector<Reached> reached_;         // by node
  std::vector<std::int32_t> open_;
  std::uint32_t search_ = 0;
};

}  // namespace

void RerouteTrees(const Problem& problem, const TreeCount& count, PreviousTrees& previous) {
  Rerouter(problem, count, previous).Run();
}

}  // namespace espalier::forest
