#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/base/units.h"

namespace espalier::forest {

// What the links that are UP give from one node to the other, bit/s, by channel.
// rank_of_node: kNoRank for what is no rank; available: as for VerifySchedule.
// Errors: kFailedPrecondition for a channel between nodes that do not exist, that ends at a
// compute node which is no rank, or that no link supports; the same channel twice;
// kResourceExhausted where rates add up past 63 bits.
Result<std::vector<std::int64_t>> ComputeChannelRates(const fabric::Topology& topology,
                                                      std::span<const Rank> rank_of_node,
                                                      std::span<const Channel> channels,
                                                      std::span<const BitsPerSecond> available);

}  // namespace espalier::forest
