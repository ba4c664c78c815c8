#pragma once

#include <cstdint>
#include <span>

#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Returns whether some source port makes ECMP take this route: the fabric switches on it (those of
// no host) are consecutive, go up in tier, then perhaps across, then down, and none occurs twice.
// Routing never takes a valley (leaf, spine, leaf, spine, leaf). A route that leaves the fabric and
// enters it again would be two flows.
// hops: arcs of the problem, each beginning where the last one ended.
bool IsRoutable(const Problem& problem, std::span<const std::int32_t> hops);

// Counts the edges of a forest, each class's once, that have a route which is not routable.
// O(classes * ranks).
std::int64_t CountUnroutableEdges(const Problem& problem, const Forest& forest);

}  // namespace espalier::forest
