#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/model/rational.h"
#include "common/base/result.h"

namespace espalier::forest {

// The throughput bound of a problem (ForestColl, section 4.4): no schedule delivers all shards in
// less than (shard unit) * inverse_rate, whatever it does, and some forest attains it.
struct Optimality {
  // 1/x* = max over cuts of (weight on the source side) / B+(source side), per Problem::unit.
  Rational inverse_rate;
  std::vector<std::int32_t> cut;  // S*: nodes on the source side of a bottleneck cut, ascending
};

// Exact: discrete Newton on the ratio, one maximum flow a rank on integers, accepted ranks
// contracted into the source. No floating point, no search range.
// Errors: kFailedPrecondition where ranks cannot be reached at all (both sides are named);
// kResourceExhausted where exact products are past 63 bits; kUnavailable when cancelled.
// Complexity: N flows, nearly all of them over a few arcs, and a Newton step (0 to 2 on usual
// fabrics) each O(1) flows more.
Result<Optimality> ComputeOptimality(const Problem& problem, const Control& control = {});

// How many trees and how large: rank r is the root of trees_per_weight * weight[r] trees, each
// of bandwidth 1/U, and at most capacity[a] trees use arc a.
struct TreeCount {
  std::int64_t trees_per_weight = 0;   // the paper's k
  Rational scale;                      // the paper's U, per Problem::unit
  std::vector<std::int64_t> capacity;  // by arc: U * b, or floor(U * b); 0 is possible then
  // What it attains: U / k. The bound, unless k was fixed.
  Rational inverse_rate;
};

// The smallest k that attains the bound (Proposition 3). Errors: kResourceExhausted for overflow.
Result<TreeCount> CountTrees(const Problem& problem, const Optimality& optimality);

// The best that exactly `trees_per_weight` trees per unit of weight attain (section B.5.4): exact
// search among the U at which some floor(U * b) changes.
// Errors: kInvalidArgument for k < 1; kFailedPrecondition where the rounded capacities are not
// balanced and no circulation within them is as good; kResourceExhausted for overflow.
Result<TreeCount> CountTreesFixed(const Problem& problem, const Optimality& optimality,
                                  std::int64_t trees_per_weight, const Control& control = {});

// The best k <= max_trees, the smallest among equals.
Result<TreeCount> CountTreesAtMost(const Problem& problem, const Optimality& optimality,
                                   std::int64_t max_trees, const Control& control = {});

// The same for one or more problems that are to have one k and that have the same optimality, as
// the two directions of one fabric: the k at which the slowest of them is the fastest. One count
// for each problem, all of the same k.
Result<std::vector<TreeCount>> CountTreesAtMost(std::span<const Problem> problems,
                                                const Optimality& optimality,
                                                std::int64_t max_trees,
                                                const Control& control = {});

}  // namespace espalier::forest
