#pragma once

#include <span>

#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Returns a lower bound on the maximum load of any assignment of these commodities. It is the
// greatest bound over three kinds of cuts: one leaf, in a folded Clos one pod or higher block, and
// in a BundledClos one group of NICs (all that it sends, or receives, over its usable links), and a
// pair of leaves (their traffic over the first, or last, links of their usable paths; on more than
// two tiers only if links are dead and CanListPaths). Shares are indivisible, so each cut's bound
// is rounded up to the next sum of shares: 33 whole flows over 32 links put 2 on one; with a
// `portion` (0: none) to the next multiple of it, in 1 / kLoadUnit of a flow. Commodities without a
// usable path do not count. `base_loads` is load that no commodity causes, by directed link in 1 /
// kLoadUnit of a flow (empty: none). The bound is then on the links that carry a commodity; links
// that only their base load fills may carry more. Complexity: O(commodities + links) in a folded
// Clos, O(candidate hops) elsewhere; with base loads, times the logarithm of their greatest
// difference.
Load ComputeLowerBound(const FabricView& view, std::span<const Commodity> commodities,
                       std::span<const std::int64_t> base_loads = {}, std::int64_t portion = 0);

// Returns the smallest load t at which links of these capacities (> 0) can carry `units` in
// portions of `portion` (both in 1 / kLoadUnit of a flow), if a link of capacity c takes at most t
// * c / view.unit_bps() flows, including its base load (`base_loads` by link; empty: none). Links
// that take no portion may have a greater base load.
Load ComputeCutBound(const FabricView& view, std::int64_t units, std::int64_t portion,
                     std::span<const std::int64_t> capacities,
                     std::span<const std::int64_t> base_loads = {});

}  // namespace espalier::controller
