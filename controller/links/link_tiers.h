#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::controller {

// The number of the tier of each link: links between the same two switch roles form a tier.
inline std::vector<std::uint32_t> TiersOf(const fabric::Topology& topology) {
  std::vector<std::uint32_t> tiers;
  for (const fabric::Link& link : topology.links()) {
    const auto a = static_cast<std::uint32_t>(topology.node(link.a).role);
    const auto b = static_cast<std::uint32_t>(topology.node(link.b).role);
    tiers.push_back(std::min(a, b) << 8U | std::max(a, b));
  }
  return tiers;
}

}  // namespace espalier::controller
