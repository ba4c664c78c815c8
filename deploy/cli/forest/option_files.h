#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// The small files that options of `espalier forest` name (docs/formats.md). JSON texts; errors
// are kInvalidArgument "NAME:LINE:COL: what".

// ["box0/gpu0", "box0/gpu1"]: which compute nodes take part.
Result<std::vector<fabric::NodeId>> ParseRanks(const std::string& text, const std::string& name,
                                               const fabric::Topology& topology);

// {"box0/gpu0": 2, "box0/gpu1": 0}: sizes of the shards, one for every rank. In the order of
// `ranks` (of all compute nodes, where that is empty).
Result<std::vector<std::int64_t>> ParseWeights(const std::string& text, const std::string& name,
                                               const fabric::Topology& topology,
                                               const std::vector<fabric::NodeId>& ranks);

// {"h0--leaf0": 40, "leaf0--spine0>spine0": "12.5"}: what links (both ways), or directions of
// links, have left, Gbit/s, 0 to their rate; the others have all of it. By DirectedLink::Index().
Result<std::vector<BitsPerSecond>> ParseShare(const std::string& text, const std::string& name,
                                              const fabric::Topology& topology);

}  // namespace espalier::forest
