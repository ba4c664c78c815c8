#include "collective/forest/trees/box_entries.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace espalier::forest {
namespace {

using Edge = TreeTable::Edge;

class BoxEntries {
 public:
  BoxEntries(const Problem& problem, const Boxes& boxes, const HalfRoutes& half_routes,
             TreeTable& trees)
      : problem_(problem),
        boxes_(boxes),
        half_routes_(half_routes),
        trees_(trees),
        load_(trees.RankCount(), 0) {}

  void Align(std::int32_t box) {
    box_ = box;
    misplaced_.clear();
    const std::span<const Rank> ranks = boxes_.ranks[static_cast<std::size_t>(box)];
    for (std::uint32_t t = 0; t < trees_.TreeCountOf(); ++t) {
      if (boxes_.box_of[trees_.RootOf(t)] == box) continue;
      entries_.clear();
      for (const Rank rank : ranks) {
        if (IsEntry({t, rank})) entries_.push_back(rank);
      }
      if (entries_.empty() || EnterOnce(t, ranks) || entries_.size() > 1) continue;
      if (!RootReaches(t, trees_.InOf({t, entries_.front()}).hub)) {
        misplaced_.push_back({t, entries_.front()});
      }
    }
    ExchangeMisplaced();
  }

 private:
  bool IsEntry(const Edge& edge) const {
    return boxes_.box_of[static_cast<std::size_t>(trees_.InOf(edge).hub)] != box_;
  }

  // Returns the switch of the box by which an edge reaches its rank; -1 if there is none.
  std::int32_t LastSwitch(const HalfRoute& in) const {
    const std::span<const std::int32_t> hops = half_routes_.Hops(in);
    if (hops.empty()) return -1;
    const std::int32_t tail = problem_.arcs[static_cast<std::size_t>(hops.back())].tail;
    return boxes_.box_of[static_cast<std::size_t>(tail)] == box_ ? tail : -1;
  }

  // Makes a tree enter a rack once, at the rank whose turn it is. Returns false if that is
  // impossible.
  bool EnterOnce(std::uint32_t tree, std::span<const Rank> ranks) {
    const HalfRoute first = trees_.InOf({tree, entries_.front()});
    const std::int32_t leaf = LastSwitch(first);
    if (leaf < 0 || half_routes_.Senders(leaf).size() < 2) return false;
    const auto enters_by_leaf = [&](Rank rank) {
      return LastSwitch(trees_.InOf({tree, rank})) == leaf && half_routes_.FindIn(rank, leaf);
    };
    if (!std::all_of(entries_.begin(), entries_.end(), enters_by_leaf)) return false;
    Rank best = kNoRank;
    for (const Rank rank : ranks) {
      if (best != kNoRank && load_[rank] >= load_[best]) continue;
      if (enters_by_leaf(rank) && half_routes_.FindIn(rank, first.hub)) best = rank;
    }
    if (best == kNoRank) return false;
    for (const Rank rank : entries_) trees_.SetIn({tree, rank}, *half_routes_.FindIn(rank, leaf));
    trees_.SetIn({tree, best}, *half_routes_.FindIn(best, first.hub));
    load_[best] += trees_.CountOf(tree);
    return true;
  }

  // Returns whether trees can go from their root directly to the switch. True if the root cannot
  // reach the fabric directly at all.
  bool RootReaches(std::uint32_t tree, std::int32_t hub) const {
    return half_routes_.FindOut(trees_.RootOf(tree), hub).has_value();
  }

  // Lets trees exchange their entries if they enter over a switch that their roots do not reach.
  void ExchangeMisplaced() {
    for (std::size_t i = 0; i < misplaced_.size(); ++i) {
      for (std::size_t j = i + 1; j < misplaced_.size(); ++j) {
        if (!Suits(misplaced_[i], misplaced_[j]) || !Suits(misplaced_[j], misplaced_[i])) continue;
        if (!Exchange(misplaced_[i], misplaced_[j])) continue;
        misplaced_.erase(misplaced_.begin() + static_cast<std::ptrdiff_t>(j));
        break;
      }
    }
  }

  bool Suits(const Edge& edge, const Edge& other) const {
    return trees_.CountOf(edge.tree) == trees_.CountOf(other.tree) &&
           RootReaches(edge.tree, trees_.InOf(other).hub);
  }

  // Lets each tree enter where the other did. Inside the box each rank is then entered as the other
  // was.
  bool Exchange(const Edge& x, const Edge& y) {
    const std::optional<std::uint16_t> in_x = InsteadOf(x, y.child);
    const std::optional<std::uint16_t> in_y = InsteadOf(y, x.child);
    if (!in_x || !in_y) return false;
    const std::uint16_t entry_x = trees_.PlaceOfIn(x);
    const std::uint16_t entry_y = trees_.PlaceOfIn(y);
    trees_.SetIn(x, *in_x);
    trees_.SetIn(y, *in_y);
    trees_.SetIn({x.tree, y.child}, entry_y);
    trees_.SetIn({y.tree, x.child}, entry_x);
    return true;
  }

  // Returns how the edge's end is entered inside the box if the tree enters at `entry`.
  std::optional<std::uint16_t> InsteadOf(const Edge& edge, Rank entry) const {
    if (edge.child == entry) return std::nullopt;
    const std::int32_t hub = trees_.InOf({edge.tree, entry}).hub;
    return half_routes_.FindIn(edge.child, problem_.IsRank(hub) ? edge.child : hub);
  }

  const Problem& problem_;
  const Boxes& boxes_;
  const HalfRoutes& half_routes_;
  TreeTable& trees_;
  std::vector<std::int64_t> load_;  // by rank: trees that enter a rack there
  std::int32_t box_ = 0;
  std::vector<Rank> entries_;  // entries of one tree
  std::vector<Edge> misplaced_;
};

}  // namespace

void AlignEntries(const Problem& problem, const Boxes& boxes, const HalfRoutes& half_routes,
                  TreeTable& trees) {
  BoxEntries entries(problem, boxes, half_routes, trees);
  for (std::size_t b = 0; b < boxes.ranks.size(); ++b) entries.Align(static_cast<std::int32_t>(b));
}

}  // namespace espalier::forest
