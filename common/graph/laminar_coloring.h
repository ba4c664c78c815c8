#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/edge_coloring.h"
#include "common/graph/laminar_split.h"

namespace espalier::graph {

// Colours flows between the leaves of a folded Clos of any number of tiers, so that the links of
// every tier are evenly loaded.
//
// Problem: a flow that leaves its pod takes a plane and a core of that plane, the same way up and
// down; a flow within a pod takes a plane only. The flows on a leaf's link to a plane, and those on
// a pod's link to a core, shall be as few as possible.
// Method: by stages. Stage 0 colours all flows, as edges between leaves, with the planes
// (EdgeColoring). The flows of each plane that leave their pods are then coloured, as edges between
// pods, with the cores of the plane; and so on upwards. The first colouring spreads each leaf's
// flows evenly over the planes, but not each pod's. Where that makes a link higher up carry more
// than it needs to, LaminarSplit evens out pairs of planes.
//
// Guarantees, in flows on a link, where D is what a leaf sends (or receives), x the part of it that
// leaves its pod, X what leaves a pod, A the planes and C the cores of each:
// 1. No link of a leaf carries more than ceil(D / A), the least possible, unless another tier gains
//    by more. If no pod is narrower upwards than downwards (C times the rate of core links is at
//    least the pod's leaves times the rate of theirs), core links are no busier than these.
// 2. If all flows leave their pods, or all stay within, also every core link carries at most
//    ceil(X / (A C)): all tiers have the least maximum at once (de Werra 1971; Edmonds 1970: the
//    union of two laminar families is totally unimodular).
// 3. Otherwise it chooses between the colouring by leaves and one that treats both kinds of flows
//    apart, by the busier tier. The latter has at most ceil(x / A) + ceil((D - x) / A) on a leaf's
//    link, so at most one flow more than the least, and ceil(X / (A C)) on core links. (Which of
//    both is needed is NP-complete.)
//
// Complexity: that of EdgeColoring for each stage, on the flows that reach it, and O(flows)
// besides; LaminarSplit where it is needed. Measured by tests/bench/clos_bench.cc: see
// docs/benchmarks.md. Deterministic. Thread safety: one thread per workspace; a reused workspace
// allocates nothing.
class LaminarColoring {
 public:
  // A colour of each edge: the number of a top of the lowest block that holds both its ends, valid
  // until the next call. Tier 0 has one block per leaf. The tops of a tier are numbered such that
  // those above one top of the tier below are consecutive. Both ends of an edge must differ, and
  // all leaves belong to one block above the last of these tiers.
  std::span<const std::uint32_t> Color(std::span<const BipartiteEdge> edges,
                                       std::span<const LaminarTier> tiers);

  // Of the links above the blocks of one tier: flows on the busiest one, and the least possible if
  // only this tier counts.
  struct TierLoad {
    std::int64_t most = 0;
    std::int64_t bound = 0;
    bool operator==(const TierLoad&) const = default;
  };
  // Of the last call, by tier.
  std::span<const TierLoad> loads() const { return loads_; }
  // Whether all flows have the same height: 1 + the tier of the highest block that they leave.
  bool has_one_height() const { return has_one_height_; }

 private:
  void ColorStages(std::span<const BipartiteEdge> edges, std::span<const LaminarTier> tiers,
                   bool balance);
  // Puts the flows that leave their blocks of this tier into edges_ and index_, by color.
  void Bucket(std::span<const BipartiteEdge> edges, std::span<const LaminarTier> tiers,
              std::size_t tier);
  void ComputeBounds(std::span<const BipartiteEdge> edges, std::span<const LaminarTier> tiers);
  void CountLoads(std::span<const BipartiteEdge> edges, std::span<const LaminarTier> tiers);
  bool IsBetter(std::span<const TierLoad> loads, std::span<const TierLoad> than,
                std::span<const LaminarTier> tiers) const;

  EdgeColoring coloring_;
  LaminarSplit split_;
  std::vector<std::uint32_t> colors_;  // by edge: the result
  std::vector<std::uint32_t> plain_;   // a result of another method
  std::vector<BipartiteEdge> edges_;   // of the stage, between blocks, by group
  std::vector<std::uint32_t> index_;   // by position in edges_: the edge
  std::vector<BipartiteEdge> found_;   // as edges_, in the order of the edges
  std::vector<std::uint32_t> found_index_;
  std::vector<std::uint32_t> group_end_;  // by color of the stage below; one more at the front
  std::vector<std::uint32_t> group_colors_;
  std::vector<std::uint32_t> counts_;
  std::vector<TierLoad> loads_;
  bool has_one_height_ = true;
};

}  // namespace espalier::graph
