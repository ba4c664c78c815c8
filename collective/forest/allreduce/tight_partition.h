#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// A proof by counting that no allreduce is faster than reduce-scatter followed by allgather.
//
// Let the ranks be divided into P sets of nodes (a switch may belong to none). Data of every
// broadcast tree enters P - 1 of the sets. Data of every reduce tree leaves P - 1 sets, each time
// for another one, which is again P - 1 entries. So an allreduce at rate X needs 2 (P - 1) X of the
// capacity into the sets. If every set is tight, which means (capacity in) / x* = (weight outside),
// these capacities add up to (P - 1) W x*. X is then at most W x* / 2, which reduce-scatter
// followed by allgather attains.
struct TightPartition {
  std::vector<std::vector<std::int32_t>> parts;  // nodes, ascending; at least two parts
};

// Finds such a partition. Tight sets are the minimum cuts at x*; one flow finds the smallest of
// them around a rank. Returns none if these sets do not form a partition, which proves nothing.
// Errors: kResourceExhausted if exact products exceed 63 bits; kUnavailable when cancelled.
// Complexity: N maximum flows over the whole graph; 60 ms for 1,024 A100 GPUs.
Result<std::optional<TightPartition>> FindTightPartition(const Problem& problem,
                                                         const Optimality& optimality,
                                                         const Control& control = {});

}  // namespace espalier::forest
