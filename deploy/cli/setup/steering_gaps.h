#pragma once

#include <string>
#include <vector>

#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::cli {

// What a valid topology lacks for steering, or makes steering pointless: endpoints at switches,
// addresses of NICs and of switches' ends of links, a choice of uplinks, even and sufficient
// uplinks. Each is a sentence with its count and the remedy. Empty if nothing is amiss.
// O(nodes + links).
std::vector<std::string> FindSteeringGaps(const fabric::Topology& topology,
                                          const fabric::PathTable& paths);

}  // namespace espalier::cli
