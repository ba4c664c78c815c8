#pragma once

#include <cstdint>
#include <span>

#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Whether a port can be chosen so that ECMP takes this route: the switches of the fabric on it
// (those of no host) follow one another, go up in tier, then perhaps across, then down, and none
// comes twice. A valley (leaf, spine, leaf, spine, leaf) is none that routing would take; a route
// that leaves the fabric and enters it again would be two flows.
// hops: arcs of the problem, each beginning where the last one ended.
bool IsRoutable(const Problem& problem, std::span<const std::int32_t> hops);

// The edges of a forest, each class's once, that have a route which is not routable.
// O(classes * ranks).
std::int64_t CountUnroutableEdges(const Problem& problem, const Forest& forest);

}  // namespace espalier::forest
