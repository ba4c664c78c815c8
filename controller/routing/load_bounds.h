#pragma once

#include <span>

#include "controller/routing/assignment.h"

namespace espalier::controller {

// A maximum load that no assignment of these commodities can go below: the greatest over the cuts
// around a leaf (all that it sends over its usable links, all that it receives) and around a pair
// of leaves (what goes between them over the links that their usable paths begin and end with).
// Shares are not divisible any further, so each cut's bound is rounded up to what shares can make
// of it: 33 whole flows over 32 links put 2 on one. Commodities without a usable path do not
// count. Complexity: O(commodities + leaves x spines) in a Clos, O(candidate hops) elsewhere.
Load ComputeLowerBound(const FabricView& view, std::span<const Commodity> commodities);

// The least t for which links of these capacities (> 0) can carry `units` in portions of
// `portion` (both of 1 / kLoadUnit of a flow) without any exceeding t x its capacity / unit.
Load ComputeCutBound(const FabricView& view, std::int64_t units, std::int64_t portion,
                     std::span<const std::int64_t> capacities);

}  // namespace espalier::controller
