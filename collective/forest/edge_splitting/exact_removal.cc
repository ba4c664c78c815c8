#include "collective/forest/edge_splitting/exact_removal.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace espalier::forest {

namespace {

// Problem: use up all capacity of one node by splits (u, w), (w, t) -> (u, t), so that K units
// still flow from s to every remaining rank.
//
// Idea: a list of splits that fails together is halved until single pairs remain. For a single
// pair, verification computes gamma, the largest amount that no cut forbids. By Theorem 26 every
// arc out of the node has a permissible partner, so rounds over all remaining pairs finish the
// node.
//
// Invariant: the graph with the splits kept so far is balanced and its flows are large enough.
// Cost: a flow for each neighbour and tested pair; the guess keeps the number of pairs small.
// Source: ForestColl, Algorithm 3 and Theorems 26 to 28.
class ExactRemoval {
 public:
  ExactRemoval(const Problem& problem, SplitGraph& graph, Verification& verification,
               std::int32_t node, FallbackCounters& counters)
      : problem_(problem),
        graph_(graph),
        verification_(verification),
        counters_(counters),
        removal_{node, {}} {
    for (const FlowGraph::Port& port : graph.flows().Ports(node)) neighbours_.push_back(port.node);
    std::sort(neighbours_.begin(), neighbours_.end());
  }

  // Applies the permissible part of a list of splits; returns whether that is all of it.
  // is_too_much: the whole list is already known to fail.
  bool KeepPermissible(std::span<const Split> splits, bool is_too_much) {
    for (const Split& split : splits) Apply(split, split.amount);
    if (splits.size() == 1) return Keep(splits.front()) == splits.front().amount;
    if (!is_too_much && verification_.HoldsAround(removal_.node, neighbours_)) {
      removal_.splits.insert(removal_.splits.end(), splits.begin(), splits.end());
      return true;
    }
    for (const Split& split : splits) Apply(split, -split.amount);
    ++counters_.bisections;
    const std::size_t half = splits.size() / 2;
    const bool all_of_first = KeepPermissible(splits.first(half), false);
    KeepPermissible(splits.subspan(half), all_of_first);
    return false;
  }

  // Splits the remaining capacity; returns false if a round over all pairs splits nothing.
  bool SplitRemaining() {
    while (true) {
      const std::vector<Split> pairs = RemainingPairs();
      if (pairs.empty()) return true;
      ++counters_.exhaustive_rounds;
      bool progress = false;
      for (Split pair : pairs) {
        pair.amount =
            std::min(graph_.In(pair.from, removal_.node), graph_.Out(removal_.node, pair.to));
        if (pair.amount == 0) continue;
        Apply(pair, pair.amount);
        progress |= Keep(pair) > 0;
      }
      if (!progress) return false;
    }
  }

  Removal Take() && { return std::move(removal_); }

 private:
  void Apply(const Split& split, std::int64_t amount) {
    graph_.Apply(removal_.node, split.from, split.to, amount);
  }

  // Reduces an applied split to its gamma, records it and returns the amount.
  std::int64_t Keep(Split split) {
    ++counters_.exact_gammas;
    split.amount = verification_.ReduceToGamma(removal_.node, neighbours_, split);
    if (split.amount > 0) removal_.splits.push_back(split);
    return split.amount;
  }

  bool IsHigher(std::int32_t node) const {
    return node != kSource && !problem_.IsRank(removal_.node) && !problem_.IsRank(node) &&
           problem_.tier[static_cast<std::size_t>(node)] >
               problem_.tier[static_cast<std::size_t>(removal_.node)];
  }

  // 0: useful; 1: drops capacity; 2: a valley.
  int Preference(const Split& pair) const {
    if (pair.from == pair.to) return 1;
    return IsHigher(pair.from) && IsHigher(pair.to) ? 2 : 0;
  }

  // Returns all pairs that have capacity on both sides, the best first. s is never paired with
  // itself.
  std::vector<Split> RemainingPairs() const {
    std::vector<std::int32_t> ends = neighbours_;
    ends.push_back(kSource);
    std::vector<Split> pairs;
    for (const std::int32_t from : ends) {
      if (graph_.In(from, removal_.node) == 0) continue;
      for (const std::int32_t to : ends) {
        if (from == kSource && to == kSource) continue;
        if (graph_.Out(removal_.node, to) > 0) pairs.push_back({from, to, 0});
      }
    }
    std::stable_sort(pairs.begin(), pairs.end(), [this](const Split& x, const Split& y) {
      return Preference(x) < Preference(y);
    });
    return pairs;
  }

  const Problem& problem_;
  SplitGraph& graph_;
  Verification& verification_;
  FallbackCounters& counters_;
  std::vector<std::int32_t> neighbours_;  // before the first split
  Removal removal_;
};

// Merges splits of the same pair, which can come from the guess and from the rounds after it.
void Merge(std::vector<Split>& splits) {
  std::sort(splits.begin(), splits.end(), [](const Split& x, const Split& y) {
    return std::pair(x.from, x.to) < std::pair(y.from, y.to);
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    if (kept > 0 && splits[kept - 1].from == splits[i].from &&
        splits[kept - 1].to == splits[i].to) {
      splits[kept - 1].amount += splits[i].amount;
    } else {
      splits[kept++] = splits[i];
    }
  }
  splits.resize(kept);
}

}  // namespace

Result<Removal> RemoveExactly(const Problem& problem, SplitGraph& graph, Verification& verification,
                              std::int32_t node, std::vector<Split> guess,
                              FallbackCounters& counters) {
  ExactRemoval work(problem, graph, verification, node, counters);
  if (!guess.empty()) work.KeepPermissible(guess, true);
  const bool complete = work.SplitRemaining();
  if (verification.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
  if (!complete) {
    return Fail(ErrorCode::kInternal, fmt::format("edge splitting at {} found no permissible pair",
                                                  problem.names[static_cast<std::size_t>(node)]));
  }
  Removal removal = std::move(work).Take();
  Merge(removal.splits);
  return removal;
}

}  // namespace espalier::forest
