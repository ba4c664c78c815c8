#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/model/rational.h"
#include "common/base/result.h"

namespace espalier::forest {

// The number of trees and their size: rank r is the root of trees_per_weight * weight[r] trees,
// each of bandwidth 1/U, and at most capacity[a] trees use arc a.
struct TreeCount {
  std::int64_t trees_per_weight = 0;   // the paper's k
  Rational scale;                      // the paper's U, per Problem::unit
  std::vector<std::int64_t> capacity;  // by arc: U * b, or floor(U * b), which may be 0
  // The attained inverse rate U / k. It equals the bound unless k was fixed.
  Rational inverse_rate;
};

// Returns the smallest k that attains the bound (ForestColl, Proposition 3). Errors:
// kResourceExhausted on overflow.
Result<TreeCount> CountTrees(const Problem& problem, const Optimality& optimality);

// Returns the best scale for exactly `trees_per_weight` trees per unit of weight (ForestColl,
// section B.5.4). The search is exact, among the U at which some floor(U * b) changes.
// Errors: kInvalidArgument for k < 1; kFailedPrecondition if the rounded capacities are not
// balanced and no circulation within them is as good; kResourceExhausted on overflow.
Result<TreeCount> CountTreesFixed(const Problem& problem, const Optimality& optimality,
                                  std::int64_t trees_per_weight, const Control& control = {});

// Returns the count of the best k <= max_trees; among equally good ones, of the smallest.
Result<TreeCount> CountTreesAtMost(const Problem& problem, const Optimality& optimality,
                                   std::int64_t max_trees, const Control& control = {});

// As above for several problems that share one k and one optimality, such as the two directions of
// a fabric. Chooses the k at which the slowest problem is fastest, and returns one count per
// problem.
Result<std::vector<TreeCount>> CountTreesAtMost(std::span<const Problem> problems,
                                                const Optimality& optimality,
                                                std::int64_t max_trees,
                                                const Control& control = {});

}  // namespace espalier::forest
