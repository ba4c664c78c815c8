#include "collective/forest/planner/reuse_trees.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "collective/forest/bound/feasibility.h"
#include "collective/forest/general/shallow_forest.h"
#include "collective/forest/model/routable.h"
#include "collective/forest/model/routed_trees.h"
#include "collective/forest/planner/previous_trees.h"
#include "collective/forest/planner/reroute_trees.h"
#include "collective/forest/problem/circulation.h"
#include "collective/forest/structures/hierarchical.h"

namespace espalier::forest {
namespace {

// No arc is used by more trees than there are, once for each of up to 2^16 edges: 62 bits in all.
constexpr int kMaxBits = 46;
constexpr int kMaxTests = 64;  // each takes flows to all ranks, some milliseconds for 1,024

// Cuts the same trees finer or coarser: k = trees_per_weight. Capacities that are not whole numbers
// then are rounded down. None if all of it together exceeds kMaxBits.
std::optional<TreeCount> Rescale(const Problem& problem, const TreeCount& count,
                                 std::int64_t trees_per_weight) {
  TreeCount made;
  made.trees_per_weight = trees_per_weight;
  made.inverse_rate = count.inverse_rate;
  const auto scale = Rational::Product(count.inverse_rate, Rational(trees_per_weight, 1));
  if (!scale) return std::nullopt;
  made.scale = *scale;
  Int128 sum = Int128{problem.TotalWeight()} * trees_per_weight;
  for (const std::int64_t capacity : count.capacity) {
    const Int128 scaled = Int128{capacity} * trees_per_weight / count.trees_per_weight;
    sum += scaled;
    if (sum >> kMaxBits != 0) return std::nullopt;
    made.capacity.push_back(static_cast<std::int64_t>(scaled));
  }
  return made;
}

// Selects which previous trees stay, at a given number of trees, and computes the rest.
class Selection {
 public:
  Selection(const Problem& problem, const PreviousTrees& previous, const TreeCount& count)
      : problem_(problem),
        previous_(previous),
        rest_(problem),
        capacity_(count.capacity),
        kept_(previous.trees.size(), 0) {
    for (std::int64_t& demand : rest_.weight) demand *= count.trees_per_weight;
    for (const PreviousTrees::Tree& tree : previous.trees) {
      counts_.push_back(tree.Units(problem, count.trees_per_weight));
    }
  }

  // Keeps all trees if that leaves nothing to pack.
  bool KeepAll() {
    if (!Add(0, counts_.size())) return false;
    if (rest_.TotalWeight() == 0) return true;
    Remove(0, counts_.size());
    return false;
  }

  // Keeps as many trees as it can find.
  void KeepSome(const Control& control) { KeepAmong(0, counts_.size(), control); }

  // How many of this forest's trees come from each previous tree.
  std::span<const std::int64_t> kept() const { return kept_; }

  // The rest as a problem: weights are numbers of trees, capacities those of TrimRest.
  const Problem& rest() const { return rest_; }

  // Returns the remaining capacities without those that keep ranks from being balanced with the
  // source.
  std::vector<std::int64_t> TrimRest() const {
    const std::int32_t source = problem_.node_count;
    std::vector<Arc> arcs = problem_.arcs;
    std::vector<std::int64_t> capacity = capacity_;
    std::vector<std::int64_t> surplus = rest_.weight;  // incoming minus outgoing
    for (std::size_t a = 0; a < capacity_.size(); ++a) {
      const Arc& arc = problem_.arcs[a];
      if (problem_.IsRank(arc.head)) surplus[static_cast<std::size_t>(arc.head)] += capacity_[a];
      if (problem_.IsRank(arc.tail)) surplus[static_cast<std::size_t>(arc.tail)] -= capacity_[a];
    }
    for (std::int32_t rank = 0; rank < problem_.rank_count; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      arcs.push_back({source, rank, 0});
      capacity.push_back(rest_.weight[r]);
      arcs.push_back({rank, source, 0});
      capacity.push_back(std::max<std::int64_t>(surplus[r], 0));
    }
    // Only the source has too much incoming capacity, so no removed path continues from it and the
    // supply stays whole.
    TrimToCirculation(problem_.node_count + 1, arcs, capacity);
    capacity.resize(capacity_.size());
    return capacity;
  }

 private:
  void KeepAmong(std::size_t begin, std::size_t end, const Control& control) {
    if (begin == end || tests_ == kMaxTests || control.IsCancelled()) return;
    if (Add(begin, end)) {
      ++tests_;
      if (SupportsTrees(rest_, TrimRest(), 1)) return;
      Remove(begin, end);
    }
    if (end - begin == 1) return;
    const std::size_t middle = begin + (end - begin) / 2;
    KeepAmong(begin, middle, control);
    KeepAmong(middle, end, control);
  }

  // Adds trees to the kept ones; returns false and changes nothing if a root or an arc has no room
  // for them.
  bool Add(std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      Use(t, counts_[t]);
      if (!overdrawn_) continue;
      overdrawn_ = false;
      Remove(begin, t + 1);
      return false;
    }
    return true;
  }

  void Remove(std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) Use(t, -counts_[t]);
    overdrawn_ = false;
  }

  void Use(std::size_t t, std::int64_t count) {
    const PreviousTrees::Tree& tree = previous_.trees[t];
    kept_[t] += count;
    overdrawn_ = (rest_.weight[tree.root] -= count) < 0 || overdrawn_;
    for (const std::int32_t route : tree.routes) {
      if (route < 0) continue;
      for (const std::int32_t arc : previous_.routes[static_cast<std::size_t>(route)]) {
        overdrawn_ = (capacity_[static_cast<std::size_t>(arc)] -= count) < 0 || overdrawn_;
      }
    }
  }

  const Problem& problem_;
  const PreviousTrees& previous_;
  Problem rest_;
  std::vector<std::int64_t> capacity_;
  std::vector<std::int64_t> counts_;  // by previous tree, at the new scale
  std::vector<std::int64_t> kept_;
  bool overdrawn_ = false;
  int tests_ = 0;
};

// Assembles a forest from trees with their paths.
class Assembly {
 public:
  explicit Assembly(const Problem& problem) : problem_(problem) {}

  void Add(Rank root, std::int64_t count, std::vector<Rank> parents,
           std::vector<std::span<const std::int32_t>> hops) {
    trees_.push_back({root, count, std::move(parents), std::move(hops)});
  }

  Forest Finish(const TreeCount& count) && {
    std::stable_sort(trees_.begin(), trees_.end(),
                     [](const Tree& x, const Tree& y) { return x.root < y.root; });
    Forest forest;
    forest.rank_count = problem_.rank_count;
    forest.trees_per_weight = count.trees_per_weight;
    forest.scale = count.scale;
    forest.inverse_rate = count.inverse_rate;
    for (const Tree& tree : trees_) AddTree(tree, forest);
    for (const auto& [edge, routes] : routes_) {
      forest.routes.AddArc(edge.second, edge.first);
      for (const auto& [trees, hops] : routes) forest.routes.AddRoute(trees, hops);
    }
    forest.routes.Index(problem_.rank_count);
    forest.unroutable_edges = CountUnroutableEdges(problem_, forest);
    return forest;
  }

 private:
  struct Tree {
    Rank root = 0;
    std::int64_t count = 0;
    std::vector<Rank> parents;
    std::vector<std::span<const std::int32_t>> hops;  // by child
  };

  void AddTree(const Tree& tree, Forest& forest) {
    const bool alike = !forest.classes.empty() && forest.classes.back().root == tree.root &&
                       std::ranges::equal(forest.Parents(forest.classes.size() - 1), tree.parents);
    if (alike) {
      forest.classes.back().count += tree.count;
    } else {
      forest.classes.push_back({tree.root, tree.count});
      forest.parents.insert(forest.parents.end(), tree.parents.begin(), tree.parents.end());
    }
    for (std::size_t child = 0; child < tree.parents.size(); ++child) {
      if (tree.parents[child] == kNoRank) continue;
      auto& routes = routes_[{static_cast<Rank>(child), tree.parents[child]}];
      if (!routes.empty() && std::ranges::equal(routes.back().second, tree.hops[child])) {
        routes.back().first += tree.count;
      } else {
        routes.emplace_back(tree.count, tree.hops[child]);
      }
    }
  }

  const Problem& problem_;
  std::vector<Tree> trees_;
  // By child and parent: counts and paths in the order of the trees.
  std::map<std::pair<Rank, Rank>,
           std::vector<std::pair<std::int64_t, std::span<const std::int32_t>>>>
      routes_;
};

void AddKept(const PreviousTrees& previous, std::span<const std::int64_t> kept,
             Assembly& assembly) {
  for (std::size_t t = 0; t < kept.size(); ++t) {
    const PreviousTrees::Tree& tree = previous.trees[t];
    if (kept[t] == 0) continue;
    std::vector<std::span<const std::int32_t>> hops(tree.routes.size());
    for (std::size_t child = 0; child < hops.size(); ++child) {
      if (tree.routes[child] < 0) continue;
      hops[child] = previous.routes[static_cast<std::size_t>(tree.routes[child])];
    }
    assembly.Add(tree.root, kept[t], tree.parents, std::move(hops));
  }
}

void AddPacked(const Forest& forest, Assembly& assembly) {
  VisitRoutedTrees(forest, [&](const RoutedTree& routed) {
    const std::span<const Rank> parents = forest.Parents(routed.tree_class);
    std::vector<std::span<const std::int32_t>> hops(parents.size());
    for (const TreeEdge& edge : routed.edges) {
      hops[edge.child] = forest.routes.Hops(*edge.route);
    }
    assembly.Add(routed.root, routed.count, {parents.begin(), parents.end()}, std::move(hops));
    return true;
  });
}

Result<Forest> PackRest(const Problem& rest, const TreeCount& count, const ReuseOptions& options,
                        const Control& control) {
  if (options.use_structure) {
    auto boxes = BuildHierarchical(rest, count, options.height_steps, control);
    if (!boxes) return Propagate(boxes);
    if (boxes->has_value()) return std::move(**boxes);
  }
  return BuildShallowForest(rest, count, options.height_steps, control);
}

// Builds the forest from the selected trees and a forest of the rest.
Result<Forest> Complete(const Problem& problem, const TreeCount& count,
                        const PreviousTrees& previous, const Selection& selection,
                        const ReuseOptions& options, const Control& control) {
  Assembly assembly(problem);
  AddKept(previous, selection.kept(), assembly);
  Forest packed;  // owns the paths until the end
  if (selection.rest().TotalWeight() > 0) {
    TreeCount rest = count;
    rest.trees_per_weight = 1;
    rest.capacity = selection.TrimRest();
    auto made = PackRest(selection.rest(), rest, options, control);
    if (!made) return made;
    packed = std::move(*made);
    AddPacked(packed, assembly);
  }
  Forest forest = std::move(assembly).Finish(count);
  forest.fallbacks = packed.fallbacks;
  return forest;
}

std::int64_t CountRerouted(const PreviousTrees& previous, std::span<const std::int64_t> kept) {
  std::int64_t rerouted = 0;
  for (std::size_t t = previous.whole_trees; t < kept.size(); ++t) rerouted += kept[t];
  return rerouted;
}

// The numbers of trees to try: the previous one and the least common multiple of both.
std::vector<std::int64_t> ChooseTreeCounts(std::int64_t own, std::int64_t previous,
                                           const ReuseOptions& options) {
  const auto common = CheckedMultiply(own / std::gcd(own, previous), previous);
  if (!options.any_tree_count || !common) return {own};
  if (!options.previous_tree_count || *common == previous) return {*common};
  return {previous, *common};
}

}  // namespace

Result<std::optional<Forest>> ReuseTrees(const fabric::Topology& topology, const Problem& problem,
                                         const TreeCount& count, const PreviousSchedule& previous,
                                         const ReuseOptions& options, const Control& control,
                                         Reuse& reuse) {
  control.Report("packing", 0);
  auto found =
      FindPreviousTrees(topology, problem, *previous.plan, *previous.topology, options.reversed);
  if (!found) return Propagate(found);
  if (found->trees.empty() && found->broken.empty()) return std::nullopt;
  const std::int64_t own = count.trees_per_weight;
  for (const std::int64_t k : ChooseTreeCounts(own, found->trees_per_weight, options)) {
    const auto scaled = Rescale(problem, count, k);
    if (!scaled) continue;
    if (!found->broken.empty()) RerouteTrees(problem, *scaled, *found);
    Selection selection(problem, *found, *scaled);
    const bool all = selection.KeepAll();
    if (!all) {
      // Rounded capacities are not balanced, so they only serve if nothing is left to pack.
      if (k % own != 0) continue;
      selection.KeepSome(control);
    }
    const std::int64_t stay =
        std::accumulate(selection.kept().begin(), selection.kept().end(), std::int64_t{0});
    // If more than half is packed from scratch, a new forest is shallower at no extra cost.
    if (stay < selection.rest().TotalWeight() || stay == 0) continue;
    auto forest = Complete(problem, *scaled, *found, selection, options, control);
    if (!forest) return Propagate(forest);
    if (all) forest->method = previous.plan->forests.front().method;
    reuse.kept += stay;
    reuse.rerouted += CountRerouted(*found, selection.kept());
    return std::move(*forest);
  }
  return std::nullopt;
}

}  // namespace espalier::forest
