#pragma once

#include <cstdint>
#include <span>

#include "collective/synthesis/graphs/families.h"
#include "common/base/result.h"

namespace espalier::synthesis {

// The distance-regular network of degree 4 with so many nodes (Table A.2): 6, 9, 10, 14, 15, 16,
// 21, 26, 32, 35, 45, 70, 80, 189 or 728. Errors: kInvalidArgument for another number.
Result<Network> BuildDistanceRegular(std::int64_t nodes);
std::span<const std::int64_t> DistanceRegularSizes();

}  // namespace espalier::synthesis
