#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/edge_coloring.h"
#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Computes the assignment of least maximum load on a 2-tier Clos with equal links, by an equitable
// edge colouring (de Werra 1971; graph::EdgeColoring). Leaves are the nodes of a bipartite
// multigraph, subflows its edges, and usable spines its colours. Each link of a leaf then carries
// the floor or the ceiling of the leaf's mean, so no assignment has less on a leaf's busiest link.
//
// It applies if all usable links have one rate, all sending leaves and all receiving leaves with a
// usable link reach the same spines, and all commodities have equally many subflows. It is a
// workspace. Thread safety: one thread.
class EquitablePaths {
 public:
  explicit EquitablePaths(FabricView& view) : view_(view) {}

  // Fills assignment.paths, max_load and lower_bound (equal to max_load); `first` must be set.
  // False, without any change, if it does not apply. O(commodities) besides the colouring.
  bool Assign(std::span<const Commodity> commodities, Assignment& assignment);

 private:
  // Fills edges_ and reaches_; false if the commodities have different numbers of subflows.
  bool ReadCommodities(std::span<const Commodity> commodities);
  // Finds the usable spines that all leaves in use reach; false if they differ. Leaves that reach
  // none are left out: their commodities are unroutable.
  bool FindColors();
  bool IsRoutable(std::uint32_t source, std::uint32_t destination) const;

  FabricView& view_;
  graph::EdgeColoring coloring_;
  std::vector<graph::BipartiteEdge> edges_;
  std::vector<std::uint32_t> spines_;  // by colour
  std::vector<std::uint64_t> colors_;  // the usable spines as a mask
  std::vector<std::uint8_t> reaches_;  // bit 0: the leaf can send, bit 1: it can receive
  bool all_routable_ = true;           // all leaves in use reach the spines
};

}  // namespace espalier::controller
