#include "collective/forest/structures/label_trees.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "collective/forest/flow/parent_flow.h"
#include "collective/forest/flow/shortest_distances.h"

namespace espalier::forest {
namespace {

constexpr std::size_t kMaxInArcs = 64;
constexpr std::size_t kBlock = 32;  // children per block: a cache line of parents

// From tree number `unit` of the root on, `child` has another parent than before.
struct Change {
  Rank root = 0;
  Rank child = 0;
  Rank parent = 0;
  std::int64_t unit = 0;
};

// Problem: choose a nearer in-neighbour as the parent of every node in every tree, so that no arc
// carries more trees than its capacity.
//
// Idea: the choices of different children are independent, so each child is one small flow
// (ParentFlow) from groups of roots with the same allowed arcs to these arcs. Flows are solved
// child by child, but trees are needed root by root. So the parents in the first tree of each root
// are stored completely, and the differences of the following trees as a list of changes. Sorted by
// root and unit, this list cuts the trees of a root into classes.
//
// Invariant: a parent is nearer to the root than its child, so any choice of parents is a tree.
//
// Cost: O(N^2 * in-degree) for distances and allowed arcs; each flow has at most min(N,
// 2^in-degree) groups.
// Source: this project; for the schedules of such graphs see chapter 3 of L. Zhao's dissertation.
class LabelTrees {
 public:
  LabelTrees(const Problem& problem, const TreeCount& count, const Control& control)
      : problem_(problem),
        count_(count),
        control_(control),
        ranks_(static_cast<std::size_t>(problem.rank_count)) {}

  Result<std::optional<Forest>> Build() {
    if (!CollectArcs()) return std::nullopt;
    std::vector<DistanceTable::Edge> edges;
    for (std::size_t x = 0; x < ranks_; ++x) {
      for (const InArc& arc : in_arcs_[x]) edges.push_back({arc.from, static_cast<Rank>(x)});
    }
    const DistanceTable distances(ranks_, edges);
    first_parents_.resize(ranks_ * ranks_);
    std::vector<Rank> block(kBlock * ranks_);  // by child, then root
    for (std::size_t begin = 0; begin < ranks_; begin += kBlock) {
      if (control_.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
      control_.Report("packing", static_cast<double>(begin) / static_cast<double>(ranks_));
      const std::size_t end = std::min(begin + kBlock, ranks_);
      for (std::size_t x = begin; x < end; ++x) {
        if (!ChooseParents(x, distances, {block.data() + (x - begin) * ranks_, ranks_})) {
          return std::nullopt;
        }
      }
      for (std::size_t r = 0; r < ranks_; ++r) {
        for (std::size_t x = begin; x < end; ++x) {
          first_parents_[r * ranks_ + x] = block[(x - begin) * ranks_ + r];
        }
      }
    }
    return MakeForest();
  }

 private:
  struct InArc {
    Rank from = 0;
    std::int32_t arc = 0;
    std::int64_t capacity = 0;
  };

  // Returns false if the construction does not apply.
  bool CollectArcs() {
    in_arcs_.resize(ranks_);
    for (std::size_t a = 0; a < problem_.arcs.size(); ++a) {
      const Arc& arc = problem_.arcs[a];
      if (count_.capacity[a] == 0) continue;
      if (!problem_.IsRank(arc.tail) || !problem_.IsRank(arc.head)) return false;
      in_arcs_[static_cast<std::size_t>(arc.head)].push_back(
          {static_cast<Rank>(arc.tail), static_cast<std::int32_t>(a), count_.capacity[a]});
    }
    return std::all_of(in_arcs_.begin(), in_arcs_.end(),
                       [](const auto& arcs) { return !arcs.empty() && arcs.size() <= kMaxInArcs; });
  }

  std::int64_t TreesOf(std::size_t root) const {
    return count_.trees_per_weight * problem_.weight[root];
  }

  // Computes as bits which in-arcs of x lead away from each root.
  void ComputeAllowed(std::size_t x, const DistanceTable& distances) {
    constexpr std::size_t kStep = 16;  // a constant trip count, for the vectoriser
    allowed_.assign((ranks_ + kStep - 1) / kStep * kStep, 0);
    const std::span<const std::uint16_t> own = distances.To(x);
    for (std::size_t j = 0; j < in_arcs_[x].size(); ++j) {
      const std::span<const std::uint16_t> theirs = distances.To(in_arcs_[x][j].from);
      std::size_t r = 0;
      for (; r + kStep <= ranks_; r += kStep) {
        for (std::size_t i = 0; i < kStep; ++i) {
          allowed_[r + i] |= std::uint64_t{theirs[r + i] < own[r + i]} << j;
        }
      }
      for (; r < ranks_; ++r) allowed_[r] |= std::uint64_t{theirs[r] < own[r]} << j;
    }
  }

  // Sorts the roots by group and lists the groups.
  void GroupRoots(std::size_t x) {
    sorted_roots_.clear();
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (r != x && problem_.weight[r] > 0) sorted_roots_.push_back(static_cast<Rank>(r));
    }
    SortByAllowed();
    groups_.clear();
    group_begin_.clear();
    for (std::size_t i = 0; i < sorted_roots_.size(); ++i) {
      const Rank root = sorted_roots_[i];
      if (groups_.empty() || groups_.back().allowed != allowed_[root]) {
        groups_.push_back({allowed_[root], 0});
        group_begin_.push_back(i);
      }
      groups_.back().units += TreesOf(root);
    }
    group_begin_.push_back(sorted_roots_.size());
  }

  // Sorts by the allowed arcs, then by root. Uses a counting sort if there are few arcs.
  void SortByAllowed() {
    const std::size_t arcs = arcs_of_child_;
    if (arcs > 12) {
      std::stable_sort(sorted_roots_.begin(), sorted_roots_.end(),
                       [&](Rank a, Rank b) { return allowed_[a] < allowed_[b]; });
      return;
    }
    counts_.assign((std::size_t{1} << arcs) + 1, 0);
    for (const Rank root : sorted_roots_) ++counts_[allowed_[root] + 1];
    for (std::size_t i = 0; i + 1 < counts_.size(); ++i) counts_[i + 1] += counts_[i];
    unsorted_.swap(sorted_roots_);
    sorted_roots_.resize(unsorted_.size());
    for (const Rank root : unsorted_) sorted_roots_[counts_[allowed_[root]]++] = root;
  }

  // Chooses the parent of x in the first tree of each root and appends the changes between its
  // trees to changes_. Returns false if too few in-arcs lead away from the roots.
  bool ChooseParents(std::size_t x, const DistanceTable& distances, std::span<Rank> parents) {
    arcs_of_child_ = in_arcs_[x].size();
    ComputeAllowed(x, distances);
    GroupRoots(x);
    if (!groups_.empty() && groups_.front().allowed == 0) return false;  // unreachable
    capacities_.clear();
    for (const InArc& arc : in_arcs_[x]) capacities_.push_back(arc.capacity);
    if (!flow_.Solve(groups_, capacities_)) return false;
    std::fill(parents.begin(), parents.end(), kNoRank);
    for (std::size_t g = 0; g < groups_.size(); ++g) HandOut(x, g, parents);
    return true;
  }

  // Assigns the units of a group's arcs, arc after arc, to the trees of its roots, root after root.
  void HandOut(std::size_t x, std::size_t group, std::span<Rank> parents) {
    std::size_t arc = 0;
    std::int64_t on_arc = flow_.Units(group, 0);
    for (std::size_t i = group_begin_[group]; i < group_begin_[group + 1]; ++i) {
      const Rank root = sorted_roots_[i];
      for (std::int64_t unit = 0; unit < TreesOf(root);) {
        while (on_arc == 0) on_arc = flow_.Units(group, ++arc);
        const Rank parent = in_arcs_[x][arc].from;
        if (unit == 0) {
          parents[root] = parent;
        } else {
          changes_.push_back({root, static_cast<Rank>(x), parent, unit});
        }
        const std::int64_t taken = std::min(on_arc, TreesOf(root) - unit);
        on_arc -= taken;
        unit += taken;
      }
    }
  }

  std::optional<Forest> MakeForest() {
    std::stable_sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
      return std::pair(a.root, a.unit) < std::pair(b.root, b.unit);
    });
    Forest forest;
    forest.method = Method::kLabels;
    forest.rank_count = problem_.rank_count;
    forest.trees_per_weight = count_.trees_per_weight;
    forest.scale = count_.scale;
    forest.inverse_rate = count_.inverse_rate;
    std::size_t classes = ranks_;
    for (std::size_t i = 1; i < changes_.size(); ++i) {
      classes +=
          changes_[i].root != changes_[i - 1].root || changes_[i].unit != changes_[i - 1].unit;
    }
    if (classes * ranks_ > kMaxParents) return std::nullopt;
    forest.parents.reserve((classes + 1) * ranks_);
    std::size_t change = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (problem_.weight[r] > 0) change = AddTreesOf(r, change, forest);
    }
    AddRoutes(forest);
    return forest;
  }

  // Adds the classes of one root; returns the first change of the next root.
  std::size_t AddTreesOf(std::size_t r, std::size_t change, Forest& forest) {
    const auto root = static_cast<Rank>(r);
    std::vector<Rank> tree(first_parents_.begin() + static_cast<std::ptrdiff_t>(r * ranks_),
                           first_parents_.begin() + static_cast<std::ptrdiff_t>((r + 1) * ranks_));
    for (std::int64_t unit = 0; unit < TreesOf(r);) {
      while (change < changes_.size() && changes_[change].root == root &&
             changes_[change].unit == unit) {
        tree[changes_[change].child] = changes_[change].parent;
        ++change;
      }
      const bool more = change < changes_.size() && changes_[change].root == root;
      const std::int64_t next = more ? changes_[change].unit : TreesOf(r);
      forest.classes.push_back({root, next - unit});
      forest.parents.insert(forest.parents.end(), tree.begin(), tree.end());
      unit = next;
    }
    return change;
  }

  void AddRoutes(Forest& forest) const {
    for (std::size_t x = 0; x < ranks_; ++x) {
      for (const InArc& arc : in_arcs_[x]) {
        forest.routes.AddArc(arc.from, static_cast<Rank>(x));
        forest.routes.AddRoute(arc.capacity, std::array{arc.arc});
      }
    }
    forest.routes.Index(problem_.rank_count);
  }

  const Problem& problem_;
  const TreeCount& count_;
  const Control& control_;
  std::size_t ranks_;
  std::vector<std::vector<InArc>> in_arcs_;  // by child
  std::vector<Rank> first_parents_;          // by root, then child
  std::vector<Change> changes_;
  ParentFlow flow_;

  // Scratch of one child.
  std::size_t arcs_of_child_ = 0;
  std::vector<std::uint64_t> allowed_;  // by root
  std::vector<Rank> sorted_roots_;
  std::vector<Rank> unsorted_;
  std::vector<std::uint32_t> counts_;
  std::vector<ParentFlow::Group> groups_;
  std::vector<std::size_t> group_begin_;  // into sorted_roots_
  std::vector<std::int64_t> capacities_;
};

}  // namespace

Result<std::optional<Forest>> BuildLabelTrees(const Problem& problem, const TreeCount& count,
                                              const Control& control) {
  return LabelTrees(problem, count, control).Build();
}

}  // namespace espalier::forest
