#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/laminar_coloring.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {

// Computes an assignment on a folded Clos of any number of tiers by stages
// (graph::LaminarColoring), without listing paths. Time and memory grow with flows and links.
//
// It applies if, in each part of the fabric, the usable links of a tier have one rate, all blocks
// of a tier that send or receive reach the same tops above each of their own, and all commodities
// have equally many subflows. Dead planes and dead cores are therefore no obstacle, a dead link of
// one leaf is. The result has the least maximum load, with a proof:
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
  explicit StagedPaths(const FabricView& view) : view_(view) {}

  // Fills assignment.paths, max_load, lower_bound and proof; `first` must be set. False, without
  // any change, if it does not apply.
  bool Assign(std::span<const Commodity> commodities, Assignment& assignment);
  // As if all links were up and those of a tier had one rate: a start for EjectionSearch. Fills
  // assignment.paths only, which may use dead links; commodities without any links have none.
  // False, without any change, if the fabric is no folded Clos or subflows differ in number.
  bool AssignIdeally(std::span<const Commodity> commodities, Assignment& assignment);

 private:
  // One stage of one part: what LaminarTier refers to.
  struct Stage {
    std::vector<std::uint32_t> block_of;
    std::vector<std::uint32_t> first_above;
    std::vector<std::uint32_t> labels;  // by usable top above: its label; empty: all are usable
    std::vector<bool> is_live;          // scratch
  };
  struct Part {
    std::vector<Stage> stages;
    std::vector<graph::LaminarTier> tiers;
    std::vector<std::uint32_t> leaf_numbers;  // by leaf of the part: its number in the fabric
    std::vector<std::uint32_t> commodities;   // indices; unused if there is one part
    bool in_use = false;
  };

  // Fills the assignment without its verdict.
  bool AssignParts(std::span<const Commodity> commodities, Assignment& assignment);
  bool BuildParts(std::span<const Commodity> commodities);
  void MarkBlocksInUse(std::span<const Commodity> commodities);
  bool BuildStages(std::uint32_t part);
  // Finds which tops above a tier all blocks in use reach; false if they differ.
  bool FindLiveTops(std::uint32_t part, std::uint32_t tier);
  void ColorPart(std::uint32_t part, std::span<const Commodity> commodities,
                 Assignment& assignment);
  Proof ProofOf(std::uint32_t part) const;

  const FabricView& view_;
  graph::LaminarColoring coloring_;
  std::vector<Part> parts_;
  std::vector<graph::BipartiteEdge> edges_;
  bool is_ideal_ = false;             // all links count as up
  std::vector<std::uint8_t> in_use_;  // by block: bit 0: it sends, bit 1: it receives
};

}  // namespace espalier::controller
