#include "collective/forest/trees/lower_trees.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "collective/forest/trees/tree_moves.h"

namespace espalier::forest {
namespace {

using Edge = TreeMoves::Edge;

constexpr int kMaxFruitless = 50;  // descents that found nothing lower before it ends

// A small generator of its own: the same sequence on every machine.
class Dice {
 public:
  std::uint32_t Below(std::size_t bound) {
    state_ = state_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    return static_cast<std::uint32_t>((state_ >> 33) % bound);
  }

 private:
  std::uint64_t state_ = 1;
};

class Search {
 public:
  Search(TreeMoves& moves, const std::vector<std::vector<Feeder>>& feeders, std::size_t max_trees)
      : moves_(moves), feeders_(feeders), max_trees_(max_trees) {}

  // Exchanges that cost up to this much more than they gain are taken too; 0 at first.
  void SetSlack(double slack) { slack_ = slack; }

  // One attempt; true if something moved.
  bool Attempt() {
    const std::uint32_t tree = ChooseTree();
    const Rank deepest = moves_.DeepestOf(tree);
    moves_.AddSteps(static_cast<std::int64_t>(feeders_.size() / 8 + 8));
    // A rank on the way from the root to the deepest one.
    const std::int32_t depth = moves_.DepthOf(tree, deepest);
    if (depth < 2) return false;
    std::uint32_t up = dice_.Below(static_cast<std::size_t>(depth - 1));
    Edge edge{tree, deepest};
    for (; up > 0; --up) edge.child = moves_.ParentOf(edge);
    return Lift(edge);
  }

 private:
  std::uint32_t ChooseTree() {
    // Mostly one of the highest; by tournament, which needs no order of all.
    const std::size_t trees = moves_.TreeCountOf();
    std::uint32_t best = dice_.Below(trees);
    for (int i = 0; i < 6; ++i) {
      const std::uint32_t other = dice_.Below(trees);
      if (moves_.HeightOf(other) > moves_.HeightOf(best)) best = other;
    }
    return best;
  }

  // Hangs the child higher.
  bool Lift(Edge edge) {
    const std::vector<Feeder>& ways = feeders_[edge.child];
    const std::int32_t depth = moves_.DepthOf(edge.tree, edge.child);
    const std::uint32_t first = dice_.Below(ways.size());
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::size_t w = (first + i) % ways.size();
      moves_.AddSteps(1);
      if (moves_.DepthOf(edge.tree, ways[w].from) + 1 >= depth) continue;
      // Something that lies higher than the child cannot lie below it.
      if (TakeWay(edge, w)) return true;
    }
    return false;
  }

  bool TakeWay(Edge edge, std::size_t way) {
    moves_.Release(edge);
    const std::int32_t blocked = moves_.Blocked(edge.child, way, moves_.CountOf(edge.tree));
    if (blocked < 0) {
      moves_.Move(edge, way);
      return true;
    }
    moves_.Take(edge, PlaceOf(edge));
    const double gain = -moves_.CostOf(edge, feeders_[edge.child][way].from);
    int tries = 12;
    bool moved = false;
    moves_.VisitUsers(blocked, dice_.Below(moves_.TreeCountOf()), [&](Edge other) {
      if (other.tree == edge.tree) return false;
      moved = Exchange(edge, way, other, gain);
      return moved || --tries == 0;
    });
    return moved;
  }

  std::size_t PlaceOf(Edge edge) const {
    return static_cast<std::size_t>(&moves_.FeederOf(edge) - feeders_[edge.child].data());
  }

  // The edge takes the way, and the other edge, which stands in it, goes where it can; true if
  // all is done.
  bool Exchange(Edge edge, std::size_t way, Edge other, double gain) {
    const std::int64_t trees = std::min(moves_.CountOf(edge.tree), moves_.CountOf(other.tree));
    const bool splits = moves_.CountOf(edge.tree) != trees || moves_.CountOf(other.tree) != trees;
    if (splits && moves_.TreeCountOf() + 2 > max_trees_) return false;
    const std::optional<std::size_t> place = FindPlace(edge, way, other, trees, gain);
    if (!place) return false;
    if (moves_.CountOf(edge.tree) > trees) moves_.Split(edge.tree, trees);
    if (moves_.CountOf(other.tree) > trees) moves_.Split(other.tree, trees);
    moves_.Release(edge);
    moves_.Release(other);
    moves_.Move(edge, way);
    moves_.Move(other, *place);
    return true;
  }

  // The cheapest other way of `other` that has room once `edge` has taken its new one for so many
  // trees; none where that is not worth it.
  std::optional<std::size_t> FindPlace(Edge edge, std::size_t way, Edge other, std::int64_t trees,
                                       double gain) {
    room_.clear();
    const auto add = [&](std::span<const std::int32_t> hops, std::int64_t change) {
      for (const std::int32_t hop : hops) room_.emplace_back(hop, change);
    };
    add(moves_.FeederOf(edge).hops, trees);
    add(moves_.FeederOf(other).hops, trees);
    add(feeders_[edge.child][way].hops, -trees);
    const auto fits = [&](std::span<const std::int32_t> hops, std::int64_t needed) {
      return std::ranges::all_of(hops, [&](std::int32_t hop) {
        std::int64_t room = moves_.LeftOn(hop);
        for (const auto& [changed, by] : room_) room += changed == hop ? by : 0;
        return room >= needed;
      });
    };
    if (!fits(feeders_[edge.child][way].hops, 0)) return std::nullopt;
    const std::vector<Feeder>& ways = feeders_[other.child];
    std::optional<std::size_t> best;
    double best_cost = gain * (1 - 1e-9) + slack_;  // better, whatever the rounding
    for (std::size_t w = 0; w < ways.size(); ++w) {
      moves_.AddSteps(1);
      if (moves_.IsBelow(other, ways[w].from) || !fits(ways[w].hops, trees)) continue;
      const double cost = moves_.CostOf(other, ways[w].from);
      if (cost >= best_cost) continue;
      best_cost = cost;
      best = w;
    }
    return best;
  }

  TreeMoves& moves_;
  const std::vector<std::vector<Feeder>>& feeders_;
  std::size_t max_trees_;
  double slack_ = 0;
  Dice dice_;
  std::vector<std::pair<std::int32_t, std::int64_t>> room_;  // changes of what arcs have left
};

// How low the trees are: the greatest height, then the sum over all trees.
std::pair<std::int32_t, Int128> MeasureHeights(const TreeMoves& moves) {
  std::pair<std::int32_t, Int128> heights{0, 0};
  for (std::uint32_t t = 0; t < moves.TreeCountOf(); ++t) {
    heights.first = std::max(heights.first, moves.HeightOf(t));
    heights.second += Int128{moves.HeightOf(t)} * moves.CountOf(t);
  }
  return heights;
}

}  // namespace

std::int64_t LowerTrees(const Problem& problem, const TreeCount& count,
                        const LowerTreesOptions& options, Forest& forest, const Control& control) {
  const auto feeders = FindFeeders(problem, count, forest);
  if (!feeders) return 0;
  TreeMoves moves(problem, count, forest, *feeders);
  const std::size_t trees = moves.TreeCountOf();
  Search search(moves, feeders->into, 4 * trees + 64);
  std::optional<TreeMoves> best(moves);
  auto lowest = MeasureHeights(moves);
  // Descends until nothing moves; then loosens what it has, descends again, and so on.
  for (int fruitless = 0; fruitless < kMaxFruitless && moves.steps() < options.steps;) {
    const std::size_t patience = 32 + trees;
    for (std::size_t idle = 0; idle < patience && moves.steps() < options.steps;) {
      idle = search.Attempt() ? 0 : idle + 1;
      if (control.IsCancelled()) return moves.steps();
    }
    control.Report("height", static_cast<double>(moves.steps()) /
                                 static_cast<double>(std::max<std::int64_t>(options.steps, 1)));
    const auto heights = MeasureHeights(moves);
    ++fruitless;
    if (heights < lowest) {
      lowest = heights;
      best.emplace(moves);
      fruitless = 0;
    }
    search.SetSlack(std::pow(3.0, std::min(heights.first - 1, 60)));
    for (std::size_t i = 0; i < trees + 4; ++i) search.Attempt();
    search.SetSlack(0);
  }
  forest = best->Collect(forest);
  return moves.steps();
}

}  // namespace espalier::forest
