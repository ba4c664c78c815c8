#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Lower bounds on the maximum load of any assignment in a folded Clos. That of a tier is for the
// links above its blocks (0: above leaves, 1: above pods): the greatest over its blocks and both
// directions of what leaves (enters) a block, over its usable links, rounded up to whole subflows
// as in ComputeCutBound. That of the fabric is the greatest of these; where links are dead, it also
// counts, for each top of a block, the links below it if they are fewer than those above.
// O(commodities + links). Base loads and portion as in ComputeLowerBound.
struct TierBounds {
  std::vector<Load> tiers;
  Load fabric;
};
TierBounds ComputeTierBounds(const FabricView& view, std::span<const Commodity> commodities,
                             std::span<const std::int64_t> base_loads = {},
                             std::int64_t portion = 0);

// The maximum load of each tier of a folded Clos, in the same order.
std::vector<Load> ComputeTierLoads(const FabricView& view, std::span<const Commodity> commodities,
                                   const Assignment& assignment);

}  // namespace espalier::controller
