#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// How many paths between leaves no source port takes, by the hashes that the topology names for its
// switches: where switches of two tiers choose alike, the second choice follows from the first one
// (polarisation).
struct UnreachedPaths {
  std::size_t pairs = 0;      // of leaves that were tried, whose hashes are all known
  std::size_t paths = 0;      // between these
  std::size_t unreached = 0;  // of these
  fabric::NodeId from;        // the leaves of the pair with the most unreached paths
  fabric::NodeId to;
  std::size_t worst_paths = 0;
  std::size_t worst_unreached = 0;
  std::vector<std::string> worst_via;  // the switches on the first of these, as fabric::ViaNames
};
// Tries all RoCEv2 source ports between one NIC of each leaf, for at most `most_pairs` pairs of
// leaves, spread over all pairs. Which paths ports reach may differ between NICs of a leaf where
// hashes are not linear, but hardly how many. O(pairs x ports x switches that choose).
// Errors: those of PathPredictor::Build.
Result<UnreachedPaths> FindUnreachedPaths(const fabric::Topology& topology,
                                          fabric::PathTable& paths, std::size_t most_pairs = 64);
// A sentence with the share and the remedy; empty if every path has ports.
std::string DescribeUnreached(const fabric::Topology& topology, const UnreachedPaths& found);

}  // namespace espalier::controller
