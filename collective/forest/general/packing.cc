#include "collective/forest/general/packing.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"

namespace espalier::forest {

namespace {

// Problem: the trees span the current ranks within the capacities after a removal. Extend them to
// span the removed rank v as well, within the capacities before the removal.
//
// Idea: undoing a split (u, v, t) moves its amount from (u, t) back to (u, v) and (v, t). A tree
// that exceeds what remains of (u, t) is led u -> v -> t. A tree enters v only once, so with
// several such detours it needs only one first half; the others stay unused.
//
// Invariant between two calls of PutBack: the classes count K trees in all, each spans the ranks
// put back so far, and no arc, including those from s, has more users than capacity. The arcs into
// v suffice for all trees, as the elimination removed v only while K units could enter it.
//
// Cost: for each rank, all classes times its splits and arcs.
// Source: the splits are those of ForestColl, Theorems 26 to 28; ForestColl itself grows trees edge
// by edge (Algorithm 4).
class Lift {
 public:
  Lift(SplitGraph& graph, std::int32_t rank_count, std::int32_t last, std::int64_t need)
      : graph_(graph),
        rank_count_(static_cast<std::size_t>(rank_count)),
        ending_at_(rank_count_, nullptr) {
    const std::size_t first = AddClass();
    counts_[first] = need;
    roots_[first] = static_cast<Rank>(last);
  }

  void PutBack(const Removal& removal) {
    graph_.Undo(removal);
    node_ = static_cast<std::size_t>(removal.node);
    ListEntries(removal);
    ListUsers(removal);
    for (std::size_t d = 0; d < detours_.size(); ++d) MoveExcess(d);
    HangDetoured();
    HangOthers();
  }

  Packing Take() && {
    depths_ = {};
    std::vector<std::size_t> order(counts_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t x, std::size_t y) { return roots_[x] < roots_[y]; });
    Packing packing;
    packing.parents.reserve(parents_.size());
    for (const std::size_t c : order) {
      packing.classes.push_back({roots_[c], counts_[c]});
      const auto row = parents_.begin() + static_cast<std::ptrdiff_t>(c * rank_count_);
      packing.parents.insert(packing.parents.end(), row,
                             row + static_cast<std::ptrdiff_t>(rank_count_));
    }
    return packing;
  }

 private:
  // An arc into the node and its unused capacity.
  struct Entry {
    std::int32_t from = 0;
    std::int64_t left = 0;
  };
  // A split whose arc (from, to) may have more users than remaining capacity.
  struct Detour {
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::int64_t room = 0;
    std::vector<std::size_t> users;  // classes
  };
  struct Moved {
    std::size_t tree_class = 0;
    std::size_t detour = 0;
  };

  std::size_t AddClass() {
    counts_.push_back(0);
    roots_.push_back(kNoRank);
    parents_.resize(parents_.size() + rank_count_, kNoRank);
    depths_.resize(depths_.size() + rank_count_, 0);
    is_moved_.push_back(false);
    return counts_.size() - 1;
  }

  // Leaves `count` trees in the class and moves the rest into a new one.
  std::size_t Divide(std::size_t tree_class, std::int64_t count) {
    const std::size_t rest = AddClass();
    counts_[rest] = counts_[tree_class] - count;
    counts_[tree_class] = count;
    roots_[rest] = roots_[tree_class];
    std::copy_n(Row(parents_, tree_class), rank_count_, Row(parents_, rest));
    std::copy_n(Row(depths_, tree_class), rank_count_, Row(depths_, rest));
    return rest;
  }

  template <typename T>
  T* Row(std::vector<T>& rows, std::size_t tree_class) {
    return rows.data() + tree_class * rank_count_;
  }

  bool Uses(std::size_t tree_class, const Detour& detour) {
    if (detour.from == kSource) return roots_[tree_class] == static_cast<Rank>(detour.to);
    return Row(parents_, tree_class)[detour.to] == static_cast<Rank>(detour.from);
  }

  void ListEntries(const Removal& removal) {
    entries_.clear();
    const auto node = static_cast<std::int32_t>(node_);
    entries_.push_back({kSource, graph_.flows().Supply(node)});
    for (const FlowGraph::Port& port : graph_.flows().Ports(node)) {
      entries_.push_back({port.node, graph_.flows().capacity(port.out ^ 1)});
    }
    detours_.clear();
    for (const Split& split : removal.splits) {
      if (split.from == split.to || split.to == kSource) continue;
      detours_.push_back({split.from, split.to, graph_.In(split.from, split.to), {}});
    }
  }

  void ListUsers(const Removal&) {
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      for (Detour& detour : detours_) {
        if (Uses(c, detour)) detour.users.push_back(c);
      }
    }
  }

  // Moves users of a detour's arc onto the detour until the others fit.
  void MoveExcess(std::size_t d) {
    std::int64_t excess = -detours_[d].room;
    for (const std::size_t user : detours_[d].users) excess += counts_[user];
    for (std::size_t i = 0; excess > 0; ++i) {
      const std::size_t user = detours_[d].users[i];
      if (counts_[user] > excess) DivideUser(user, excess, d);
      excess -= counts_[user];
      is_moved_[user] = true;
      moved_.push_back({user, d});
    }
  }

  // Divides a class that uses the arc of detour d, as only `count` of its trees move.
  void DivideUser(std::size_t user, std::int64_t count, std::size_t d) {
    const std::size_t rest = Divide(user, count);
    is_moved_[rest] = is_moved_[user];
    const std::size_t moved = moved_.size();
    for (std::size_t i = 0; i < moved; ++i) {
      if (moved_[i].tree_class == user) moved_.push_back({rest, moved_[i].detour});
    }
    for (std::size_t later = d + 1; later < detours_.size(); ++later) {
      if (Uses(rest, detours_[later])) detours_[later].users.push_back(rest);
    }
  }

  // Adds the node to the classes whose trees take a detour through it.
  void HangDetoured() {
    std::stable_sort(moved_.begin(), moved_.end(),
                     [](const Moved& x, const Moved& y) { return x.tree_class < y.tree_class; });
    for (std::size_t begin = 0; begin < moved_.size();) {
      std::size_t end = begin;
      const std::size_t tree_class = moved_[begin].tree_class;
      while (end < moved_.size() && moved_[end].tree_class == tree_class) ++end;
      HangBetween(tree_class, std::span(moved_).subspan(begin, end - begin));
      begin = end;
    }
    moved_.clear();
  }

  void HangBetween(std::size_t tree_class, std::span<const Moved> moved) {
    const Detour& entry = detours_[ChooseEntry(tree_class, moved).detour];
    EnterFrom(tree_class, entry.from);
    Rank* parents = Row(parents_, tree_class);
    std::uint16_t* depths = Row(depths_, tree_class);
    for (const Moved& move : moved) {
      const std::size_t to = EndOf(move);
      parents[to] = static_cast<Rank>(node_);
      depths[to] = static_cast<std::uint16_t>(depths[node_] + 1);
    }
  }

  // Chooses the detour by which the node is entered: it must begin above all ranks that will hang
  // under the node. On the path from any detour's start up to the root, it is the detour whose end
  // is passed last.
  const Moved& ChooseEntry(std::size_t tree_class, std::span<const Moved> moved) {
    const Moved* highest = &moved.front();
    if (moved.size() == 1) return *highest;
    for (const Moved& move : moved) ending_at_[EndOf(move)] = &move;
    const Rank* const parents = Row(parents_, tree_class);
    std::int32_t at = detours_[highest->detour].from;
    while (at != kSource) {
      const Moved* const ending = ending_at_[static_cast<std::size_t>(at)];
      if (ending != nullptr) highest = ending;
      const Rank parent = parents[at];
      at = parent == kNoRank ? kSource : parent;
    }
    for (const Moved& move : moved) ending_at_[EndOf(move)] = nullptr;
    return *highest;
  }

  std::size_t EndOf(const Moved& move) const {
    return static_cast<std::size_t>(detours_[move.detour].to);
  }

  void EnterFrom(std::size_t tree_class, std::int32_t from) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                    [from](const Entry& e) { return e.from == from; });
    entry->left -= counts_[tree_class];
    ESPALIER_CHECK(entry->left >= 0, "node={} from={} left={}", node_, from, entry->left);
    std::uint16_t& depth = Row(depths_, tree_class)[node_];
    if (from == kSource) {
      roots_[tree_class] = static_cast<Rank>(node_);
      depth = 0;
    } else {
      Row(parents_, tree_class)[node_] = static_cast<Rank>(from);
      depth = static_cast<std::uint16_t>(Row(depths_, tree_class)[from] + 1);
    }
  }

  // Adds the node to every other class, by a free arc.
  void HangOthers() {
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      if (is_moved_[c]) {
        is_moved_[c] = false;
        continue;
      }
      const Entry& entry = ChooseFreeEntry(c);
      if (entry.left < counts_[c]) Divide(c, entry.left);  // the loop reaches the new class later
      EnterFrom(c, entry.from);
    }
  }

  // Chooses the shallowest arc with room for the whole class, else the one with the most room.
  // Depths are hints: those below a detour are not updated.
  const Entry& ChooseFreeEntry(std::size_t tree_class) {
    const std::uint16_t* depths = Row(depths_, tree_class);
    const Entry* fitting = nullptr;
    const Entry* roomiest = &entries_.front();
    for (const Entry& entry : entries_) {
      if (entry.left > roomiest->left) roomiest = &entry;
      if (entry.from == kSource || entry.left < counts_[tree_class]) continue;
      if (fitting == nullptr || depths[entry.from] < depths[fitting->from]) fitting = &entry;
    }
    const Entry& chosen = fitting != nullptr ? *fitting : *roomiest;
    ESPALIER_CHECK(chosen.left > 0 && chosen.from != kSource, "node={}", node_);
    return chosen;
  }

  SplitGraph& graph_;
  std::size_t rank_count_ = 0;
  std::vector<std::int64_t> counts_;  // by class
  std::vector<Rank> roots_;
  std::vector<Rank> parents_;          // rows of rank_count_
  std::vector<std::uint16_t> depths_;  // rows of rank_count_; hints

  // For the node that is put back.
  std::size_t node_ = 0;
  std::vector<Entry> entries_;
  std::vector<Detour> detours_;
  std::vector<Moved> moved_;
  std::vector<bool> is_moved_;           // by class
  std::vector<const Moved*> ending_at_;  // for one class: by rank, the detour that ends there
};

}  // namespace

Result<Packing> PackTrees(SplitGraph& graph, std::span<const Removal> removals, std::int32_t last,
                          std::int64_t need, const Control& control) {
  Lift lift(graph, static_cast<std::int32_t>(removals.size()) + 1, last, need);
  for (std::size_t i = removals.size(); i-- > 0;) {
    if (control.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
    control.Report("lift", 1 - static_cast<double>(i) / static_cast<double>(removals.size()));
    lift.PutBack(removals[i]);
  }
  return std::move(lift).Take();
}

}  // namespace espalier::forest
