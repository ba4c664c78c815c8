#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Parsers of the small JSON files that options of `espalier forest` name (docs/formats.md).
// Errors: kInvalidArgument "NAME:LINE:COL: what is wrong".

// ["box0/gpu0", "box0/gpu1"]: the compute nodes that take part.
Result<std::vector<fabric::NodeId>> ParseRanks(const std::string& text, const std::string& name,
                                               const fabric::Topology& topology);

// {"box0/gpu0": 2, "box0/gpu1": 0}: the relative size of every rank's shard. Returned in the order
// of `ranks`, or of all compute nodes if `ranks` is empty.
Result<std::vector<std::int64_t>> ParseWeights(const std::string& text, const std::string& name,
                                               const fabric::Topology& topology,
                                               const std::vector<fabric::NodeId>& ranks);

// {"h0--leaf0": 40, "leaf0--spine0>spine0": "12.5"}: the residual capacity of links (both
// directions) or of one direction, in Gbit/s, from 0 to the link's rate. Other links have all of
// their rate. Indexed by DirectedLink::Index().
Result<std::vector<BitsPerSecond>> ParseShare(const std::string& text, const std::string& name,
                                              const fabric::Topology& topology);

}  // namespace espalier::forest
