#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/laminar_coloring.h"
#include "controller/routing/exact/live_stages.h"
#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Computes an assignment on a folded Clos of any number of tiers by stages
// (graph::LaminarColoring), without listing paths. Time and memory grow with flows and links.
//
// It applies if LiveStages does and all commodities have equally many subflows. The result has the
// least maximum load, with a proof:
// - kTwoTiers: a 2-tier Clos (de Werra 1971);
// - kNotNarrower: above every block, links carry at least what those below it do, and their rate is
//   a multiple (every fat-tree);
// - kOneHeight: all flows leave their pods, or all stay within. All tiers then have their least
//   maximum at once.
// Otherwise, that is, with flows of both kinds where pods are narrower upwards, the maximum load is
// at most one flow above the bound, on the leaves' links only; to find the least is NP-complete.
// The bound is the greatest, over leaves and pods and both directions, of the flows that leave one,
// rounded up per link. Measured by tests/bench/clos_bench.cc: see docs/benchmarks.md.
// It is a workspace. Thread safety: one thread.
class StagedPaths {
 public:
  explicit StagedPaths(const FabricView& view) : view_(view), stages_(view) {}

  // Fills assignment.paths, max_load, lower_bound and proof; `first` must be set. False, without
  // any change, if it does not apply.
  bool Assign(std::span<const Commodity> commodities, Assignment& assignment);
  // As if all links were up and those of a tier had one rate: a start for EjectionSearch. Fills
  // assignment.paths only, which may use dead links; commodities without any links have none.
  // False, without any change, if the fabric is no folded Clos or subflows differ in number.
  bool AssignIdeally(std::span<const Commodity> commodities, Assignment& assignment);

 private:
  // Fills the assignment without its verdict.
  bool AssignParts(std::span<const Commodity> commodities, bool is_ideal, Assignment& assignment);
  void ColorPart(std::uint32_t part, std::span<const Commodity> commodities,
                 Assignment& assignment);
  Proof ProofOf(std::uint32_t part) const;

  const FabricView& view_;
  graph::LaminarColoring coloring_;
  LiveStages stages_;
  std::vector<graph::BipartiteEdge> edges_;
};

}  // namespace espalier::controller
