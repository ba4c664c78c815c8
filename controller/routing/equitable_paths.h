#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/edge_coloring.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {

// The exact optimum on a 2-layer Clos with equal links: an equitable edge colouring of the
// multigraph of leaves, one colour a live spine (graph::EdgeColoring). Every leaf's load on each
// of its links is then the floor or the ceiling of its mean, so no assignment has less on any
// leaf's busiest link.
//
// It applies where all live links have one rate, all leaves that send or receive (and can) see
// the same live spines, and all commodities are split into equally many ways.
// A workspace. Thread safety: one thread.
class EquitablePaths {
 public:
  explicit EquitablePaths(FabricView& view) : view_(view) {}

  // Fills assignment.paths, max_load and lower_bound (they are equal); `first` must be set.
  // False, and nothing is changed, where it does not apply. O(commodities) and the colouring.
  bool Assign(std::span<const Commodity> commodities, Assignment& assignment);

 private:
  // The live spines that all leaves in use see; false where they differ. Leaves that see none
  // are left out: their commodities are unroutable.
  bool FindColors(std::span<const Commodity> commodities);
  bool IsRoutable(const Commodity& commodity) const;

  FabricView& view_;
  graph::EdgeColoring coloring_;
  std::vector<graph::BipartiteEdge> edges_;
  std::vector<std::uint32_t> spines_;   // by colour
  std::vector<std::uint64_t> colors_;   // the live spines as a mask
  std::vector<std::uint8_t> reaches_;   // bit 0: the leaf can send, bit 1: it can receive
  std::vector<std::uint32_t> degrees_;  // ways sent by leaf, then received by leaf
};

}  // namespace espalier::controller
