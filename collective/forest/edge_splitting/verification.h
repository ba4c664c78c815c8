#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/flow/pull_flow.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Tests the invariant of edge splitting: K units flow from s to every rank that is not removed.
// After a cancellation the answers are meaningless; callers check IsCancelled before they rely on
// them.
// Not thread-safe.
class Verification {
 public:
  // All arguments must outlive this object.
  Verification(const Problem& problem, SplitGraph& graph, std::int64_t need,
               const Control& control);

  void MarkRemoved(std::int32_t node, bool removed) {
    removed_[static_cast<std::size_t>(node)] = removed;
  }

  // Returns whether K units can enter a rank over its incoming arcs and supply alone. True for a
  // switch.
  bool CanBeEntered(std::int32_t node) const;

  // Returns whether the invariant still holds after these nodes were removed.
  bool Holds(std::span<const Removal> removals);

  // Returns whether the invariant still holds after splits at a node that is not fully removed.
  // `neighbours` are all neighbours that it has, or had before these splits.
  bool HoldsAround(std::int32_t node, std::span<const std::int32_t> neighbours);
  // As HoldsAround, for one split that was just applied with all of its amount. Undoes as much of
  // it as the invariant requires and returns the rest (gamma, ForestColl, Theorem 28).
  std::int64_t ReduceToGamma(std::int32_t node, std::span<const std::int32_t> neighbours,
                             const Split& split);

  std::int64_t Steps() const { return flow_.Steps(); }
  bool IsCancelled() const { return control_.IsCancelled(); }

 private:
  // Chooses the ranks whose flows decide: the neighbours themselves if all are ranks (except
  // removed ones and `except`), else all ranks, as a cut without a rank on its sink side decides
  // nothing. Sinks that failed last come first, as they often fail again. Returns whether all
  // neighbours are ranks.
  bool ChooseSinks(std::span<const std::int32_t> neighbours, std::int32_t except);
  bool AllReached();

  const Problem& problem_;
  SplitGraph& graph_;
  std::int64_t need_;  // K
  const Control& control_;
  PullFlow flow_;
  std::vector<bool> removed_;
  std::vector<std::int32_t> all_ranks_;  // in breadth-first order
  std::vector<std::int32_t> sinks_;
  std::vector<std::int32_t> neighbours_;
  std::vector<bool> chosen_;
  std::vector<std::int64_t> short_at_;  // by node: the number of its last shortage, from 1; 0: none
  std::int64_t shortages_ = 0;
};

}  // namespace espalier::forest
