#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/base/units.h"

namespace espalier::forest {

// Computes the rate in bit/s that the links that are UP provide from one node to the other, by
// channel. rank_of_node: kNoRank for nodes that are not ranks; available: as for VerifySchedule.
// Errors: kFailedPrecondition for a channel between nodes that do not exist, that ends at a compute
// node which is not a rank, or that no link supports, and for the same channel twice;
// kResourceExhausted if rates add up to more than 63 bits.
Result<std::vector<std::int64_t>> ComputeChannelRates(const fabric::Topology& topology,
                                                      std::span<const Rank> rank_of_node,
                                                      std::span<const Channel> channels,
                                                      std::span<const BitsPerSecond> available);

}  // namespace espalier::forest
