#include "collective/forest/trees/reduce_tree_heights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "collective/forest/trees/movable_trees.h"

namespace espalier::forest {
namespace {

using Edge = MovableTrees::Edge;

constexpr int kMaxFruitless = 50;  // ends after so many descents without improvement

// A small random generator that gives the same sequence on every machine.
class Dice {
 public:
  std::uint32_t Below(std::size_t bound) {
    state_ = state_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    return static_cast<std::uint32_t>((state_ >> 33) % bound);
  }

 private:
  std::uint64_t state_ = 1;
};

// Problem: move tree edges so that the trees become shallower while no arc exceeds its capacity.
//
// Idea: each attempt takes a rank on the path to the deepest rank of a high tree and looks for a
// parent nearer to the root. If the route from there is full, an edge of another tree that uses the
// full arc moves to its cheapest other route, if the gain exceeds the cost. When a descent stalls,
// exchanges with a small loss are allowed for a while (SetSlack), which leaves local minima.
//
// Invariant: after every attempt all trees span the ranks and no arc carries more than its
// capacity. A class is divided when only a part of it can move.
//
// Cost: steps are bounded by HeightOptions::steps; an exchange tries at most 12 edges and all
// routes of each.
// Source: this project. Constructing edge-disjoint spanning trees of minimum height is NP-complete
// (ForestColl, appendix B.5.3).
class Search {
 public:
  Search(MovableTrees& trees, const std::vector<std::vector<IncomingRoute>>& feeders,
         std::size_t max_trees)
      : trees_(trees), feeders_(feeders), max_trees_(max_trees) {}

  // Allows exchanges that cost up to this much more than they gain; 0 at first.
  void SetSlack(double slack) { slack_ = slack; }

  // Makes one attempt; returns whether an edge moved.
  bool Attempt() {
    const std::uint32_t tree = ChooseTree();
    const Rank deepest = trees_.DeepestOf(tree);
    trees_.AddSteps(static_cast<std::int64_t>(feeders_.size() / 8 + 8));
    // Takes a random rank on the path from the root to the deepest one.
    const std::int32_t depth = trees_.DepthOf(tree, deepest);
    if (depth < 2) return false;
    std::uint32_t up = dice_.Below(static_cast<std::size_t>(depth - 1));
    Edge edge{tree, deepest};
    for (; up > 0; --up) edge.child = trees_.ParentOf(edge);
    return Lift(edge);
  }

 private:
  std::uint32_t ChooseTree() {
    // Chooses one of the highest trees in most cases, by a tournament, which needs no sorting.
    const std::size_t trees = trees_.TreeCountOf();
    std::uint32_t best = dice_.Below(trees);
    for (int i = 0; i < 6; ++i) {
      const std::uint32_t other = dice_.Below(trees);
      if (trees_.HeightOf(other) > trees_.HeightOf(best)) best = other;
    }
    return best;
  }

  // Hangs the child nearer to the root.
  bool Lift(Edge edge) {
    const std::vector<IncomingRoute>& routes = feeders_[edge.child];
    const std::int32_t depth = trees_.DepthOf(edge.tree, edge.child);
    const std::uint32_t first = dice_.Below(routes.size());
    for (std::size_t i = 0; i < routes.size(); ++i) {
      const std::size_t w = (first + i) % routes.size();
      trees_.AddSteps(1);
      if (trees_.DepthOf(edge.tree, routes[w].from) + 1 >= depth) continue;
      // A rank nearer to the root than the child cannot lie below it.
      if (TakeRoute(edge, w)) return true;
    }
    return false;
  }

  bool TakeRoute(Edge edge, std::size_t route) {
    trees_.Release(edge);
    const std::int32_t blocked = trees_.Blocked(edge.child, route, trees_.CountOf(edge.tree));
    if (blocked < 0) {
      trees_.Move(edge, route);
      return true;
    }
    trees_.Take(edge, PlaceOf(edge));
    const double gain = -trees_.CostOf(edge, feeders_[edge.child][route].from);
    int tries = 12;
    bool moved = false;
    trees_.VisitUsers(blocked, dice_.Below(trees_.TreeCountOf()), [&](Edge other) {
      if (other.tree == edge.tree) return false;
      moved = Exchange(edge, route, other, gain);
      return moved || --tries == 0;
    });
    return moved;
  }

  std::size_t PlaceOf(Edge edge) const {
    return static_cast<std::size_t>(&trees_.FeederOf(edge) - feeders_[edge.child].data());
  }

  // Moves the edge to the route, and the other edge, which blocks it, to its best place. Returns
  // whether both moved.
  bool Exchange(Edge edge, std::size_t route, Edge other, double gain) {
    const std::int64_t trees = std::min(trees_.CountOf(edge.tree), trees_.CountOf(other.tree));
    const bool splits = trees_.CountOf(edge.tree) != trees || trees_.CountOf(other.tree) != trees;
    if (splits && trees_.TreeCountOf() + 2 > max_trees_) return false;
    const std::optional<std::size_t> place = FindPlace(edge, route, other, trees, gain);
    if (!place) return false;
    if (trees_.CountOf(edge.tree) > trees) trees_.Split(edge.tree, trees);
    if (trees_.CountOf(other.tree) > trees) trees_.Split(other.tree, trees);
    trees_.Release(edge);
    trees_.Release(other);
    trees_.Move(edge, route);
    trees_.Move(other, *place);
    return true;
  }

  // Returns the cheapest other route of `other` that has room for so many trees once `edge` has
  // taken its new route; none if the exchange does not pay.
  std::optional<std::size_t> FindPlace(Edge edge, std::size_t route, Edge other, std::int64_t trees,
                                       double gain) {
    room_.clear();
    const auto add = [&](std::span<const std::int32_t> hops, std::int64_t change) {
      for (const std::int32_t hop : hops) room_.emplace_back(hop, change);
    };
    add(trees_.FeederOf(edge).hops, trees);
    add(trees_.FeederOf(other).hops, trees);
    add(feeders_[edge.child][route].hops, -trees);
    const auto fits = [&](std::span<const std::int32_t> hops, std::int64_t needed) {
      return std::ranges::all_of(hops, [&](std::int32_t hop) {
        std::int64_t room = trees_.LeftOn(hop);
        for (const auto& [changed, by] : room_) room += changed == hop ? by : 0;
        return room >= needed;
      });
    };
    if (!fits(feeders_[edge.child][route].hops, 0)) return std::nullopt;
    const std::vector<IncomingRoute>& routes = feeders_[other.child];
    std::optional<std::size_t> best;
    double best_cost = gain * (1 - 1e-9) + slack_;  // strictly better despite rounding
    for (std::size_t w = 0; w < routes.size(); ++w) {
      trees_.AddSteps(1);
      if (trees_.IsBelow(other, routes[w].from) || !fits(routes[w].hops, trees)) continue;
      const double cost = trees_.CostOf(other, routes[w].from);
      if (cost >= best_cost) continue;
      best_cost = cost;
      best = w;
    }
    return best;
  }

  MovableTrees& trees_;
  const std::vector<std::vector<IncomingRoute>>& feeders_;
  std::size_t max_trees_;
  double slack_ = 0;
  Dice dice_;
  std::vector<std::pair<std::int32_t, std::int64_t>>
      room_;  // changes to the remaining capacity of arcs
};

// Returns the greatest height and the sum of heights over all trees.
std::pair<std::int32_t, Int128> MeasureHeights(const MovableTrees& trees) {
  std::pair<std::int32_t, Int128> heights{0, 0};
  for (std::uint32_t t = 0; t < trees.TreeCountOf(); ++t) {
    heights.first = std::max(heights.first, trees.HeightOf(t));
    heights.second += Int128{trees.HeightOf(t)} * trees.CountOf(t);
  }
  return heights;
}

}  // namespace

std::int64_t ReduceTreeHeights(const Problem& problem, const TreeCount& count,
                               const HeightOptions& options, Forest& forest,
                               const Control& control) {
  const auto feeders = FindIncomingRoutes(problem, count, forest);
  if (!feeders) return 0;
  MovableTrees movable(problem, count, forest, *feeders);
  const std::size_t trees = movable.TreeCountOf();
  Search search(movable, feeders->into, 4 * trees + 64);
  std::optional<MovableTrees> best(movable);
  auto shallowest = MeasureHeights(movable);
  // Descends until nothing moves, then loosens the result and descends again.
  for (int fruitless = 0; fruitless < kMaxFruitless && movable.steps() < options.steps;) {
    const std::size_t patience = 32 + trees;
    for (std::size_t idle = 0; idle < patience && movable.steps() < options.steps;) {
      idle = search.Attempt() ? 0 : idle + 1;
      if (control.IsCancelled()) return movable.steps();
    }
    control.Report("height", static_cast<double>(movable.steps()) /
                                 static_cast<double>(std::max<std::int64_t>(options.steps, 1)));
    const auto heights = MeasureHeights(movable);
    ++fruitless;
    if (heights < shallowest) {
      shallowest = heights;
      best.emplace(movable);
      fruitless = 0;
    }
    search.SetSlack(std::pow(3.0, std::min(heights.first - 1, 60)));
    for (std::size_t i = 0; i < trees + 4; ++i) search.Attempt();
    search.SetSlack(0);
  }
  forest = best->Collect(forest);
  return movable.steps();
}

}  // namespace espalier::forest
