#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/flow/pull_flow.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// The invariant of edge splitting: K units flow from s to every rank that is not removed.
// Once the work is cancelled nothing holds any more: look at IsCancelled where that would matter.
// Not thread-safe.
class Verification {
 public:
  // All must stay alive.
  Verification(const Problem& problem, SplitGraph& graph, std::int64_t need,
               const Control& control);

  void MarkRemoved(std::int32_t node, bool removed) {
    removed_[static_cast<std::size_t>(node)] = removed;
  }

  // Whether K units can enter a rank over the arcs into it alone. True for a switch.
  bool CanBeEntered(std::int32_t node) const;

  // Whether the invariant, true before these nodes were removed, is true after it.
  bool Holds(std::span<const Removal> removals);

  // Whether the invariant still holds after splits at a node that is not gone yet, where
  // `neighbours` are all that it has (or had, before these splits).
  bool HoldsAround(std::int32_t node, std::span<const std::int32_t> neighbours);
  // The same for one split that was just made with all of `amount`: takes back as much of it as
  // it must for the invariant to hold, and gives what stays (gamma, Theorem 28).
  std::int64_t ReduceToGamma(std::int32_t node, std::span<const std::int32_t> neighbours,
                             const Split& split);

  std::int64_t Steps() const { return flow_.Steps(); }
  bool IsCancelled() const { return control_.IsCancelled(); }

 private:
  // The ranks whose flows tell: the nodes themselves where all are ranks (less those removed
  // and `except`), else all ranks, as a cut without a rank on its sink side says nothing.
  // Those that were short last come first: they often are again.
  // Gives whether all are ranks.
  bool ChooseSinks(std::span<const std::int32_t> neighbours, std::int32_t except);
  bool AllReached();

  const Problem& problem_;
  SplitGraph& graph_;
  std::int64_t need_;  // K
  const Control& control_;
  PullFlow flow_;
  std::vector<bool> removed_;
  std::vector<std::int32_t> all_ranks_;  // neighbours follow one another
  std::vector<std::int32_t> sinks_;
  std::vector<std::int32_t> neighbours_;
  std::vector<bool> chosen_;
  std::vector<std::int64_t> short_at_;  // by node: the last shortage at it, counted from 1; 0: none
  std::int64_t shortages_ = 0;
};

}  // namespace espalier::forest
