#pragma once

#include <cstdint>
#include <span>

#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Divides flows again over the paths that they have, so that the busiest link carries less. No
// subflow changes its path.
//
// Problem: minimise the maximum load over the shares of all flows, a linear program. Idea: minimise
// the sum of the links' loads to a high power instead, which is convex and smooth. One flow after
// the other shifts a part from its costliest path to its cheapest one by a step of Newton's method;
// only flows on links that are nearly as loaded as the busiest one do, so that others keep their
// shares. A small cost of uneven parts spreads what must be shifted over all flows that can take
// it. The power grows from 8 to 64. Last, shares are rounded to 1/kShareGrain of a flow. Invariant:
// the shares of a flow add up to kLoadUnit, and a share that changes stays at least kLeastGrains: a
// message on a path with a small share lasts as long as so many on all paths together, and would
// end after all others. The result is near the least load, not always the least (tests compare it
// with bounds).

constexpr std::int64_t kShareGrain = 5'040;  // divides kLoadUnit
constexpr std::int64_t kLeastGrains = 168;   // 1/30

// `is_rigid`: by commodity, 1 if its shares must not change; those with one subflow never change.
// `base_loads`: load that no commodity causes, by directed link in 1 / kLoadUnit of a flow; links
// without capacity must have none. `most_steps` limits the looks at subflows, each of O(hops):
// a million take about 35 ms.
// Returns `present` with other shares and their max_load. Deterministic. Thread safety: that of the
// view.
Assignment BalanceShares(const FabricView& view, std::span<const Commodity> commodities,
                         std::span<const std::uint8_t> is_rigid,
                         std::span<const std::int64_t> base_loads, const Assignment& present,
                         std::int64_t most_steps);

// The maximum load of an assignment, with base loads (see BalanceShares). Links without capacity do
// not count.
Load MaxLoadWith(const FabricView& view, std::span<const Commodity> commodities,
                 std::span<const std::int64_t> base_loads, const Assignment& assignment);

}  // namespace espalier::controller
