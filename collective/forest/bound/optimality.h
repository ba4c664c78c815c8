#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/model/rational.h"
#include "common/base/result.h"

namespace espalier::forest {

// The throughput bound of a problem (ForestColl, section 4.4): no schedule delivers all shards in
// less than (shard unit) * inverse_rate, and some forest attains it.
struct Optimality {
  // 1/x* = max over cuts of (weight on the source side) / B+(source side), per Problem::unit.
  Rational inverse_rate;
  std::vector<std::int32_t> cut;  // S*: nodes on the source side of a bottleneck cut, ascending
};

// Computes the exact bound: discrete Newton steps on the ratio, one maximum flow per rank on
// integers, with accepted ranks contracted into the source. It uses no floating point and no search
// range.
// Errors: kFailedPrecondition if ranks cannot be reached at all (both sides are named);
// kResourceExhausted if exact products exceed 63 bits; kUnavailable when cancelled.
// Complexity: N flows, nearly all of them over a few arcs; each Newton step (0 to 2 on usual
// fabrics) adds O(1) flows.
Result<Optimality> ComputeOptimality(const Problem& problem, const Control& control = {});

}  // namespace espalier::forest
