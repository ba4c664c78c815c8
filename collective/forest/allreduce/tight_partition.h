#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// Why no allreduce is faster than reduce-scatter followed by allgather, by counting.
//
// Let the ranks be divided into P sets of nodes (switches may belong to none). Of every tree that
// spreads a part of the result, data has to enter P - 1 of the sets. Of every tree that collects
// it, P - 1 sets have to be left, each time for another one: again P - 1 entries. So an allreduce
// at rate X needs 2 (P - 1) X of the capacity into the sets. Where every set is tight, that is
// (capacity in) / x* = (weight outside), these capacities are (P - 1) W x* together, and X can't be
// more than W x* / 2: what the two collectives, one after the other, attain.
struct TightPartition {
  std::vector<std::vector<std::int32_t>> parts;  // nodes, ascending; two parts or more
};

// Tight sets are the minimum cuts at x*; for every rank the smallest around it is one flow. Gives
// none where these do not make up a partition, which proves nothing.
// Errors: kResourceExhausted where exact products are past 63 bits; kUnavailable when cancelled.
// Complexity: N maximum flows over the whole graph; 60 ms for 1,024 A100 GPUs.
Result<std::optional<TightPartition>> FindTightPartition(const Problem& problem,
                                                         const Optimality& optimality,
                                                         const Control& control = {});

}  // namespace espalier::forest
