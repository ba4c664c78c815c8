#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "controller/routing/fabric/bundled_clos.h"

namespace espalier::controller {

// What of a bundled Clos takes new flows, where what is dead is dead for all: a NIC with all its
// uplinks, a leaf with the uplinks of all NICs, a spine with all links to live leaves, or equally
// many members of all bundles of a group.
struct LiveBundles {
  struct Group {
    std::vector<std::uint32_t> leaves;  // within the group
    std::uint32_t members = 0;          // usable ones of each bundle; 0: it reaches no spine
    std::int64_t rate_bps = 0;          // of a member
  };
  std::vector<std::uint32_t> spines;
  std::vector<Group> groups;
  // By end: the rate of each of its uplinks to live leaves; 0: the NIC is dead. Empty without
  // uplinks.
  std::vector<std::int64_t> end_rates_bps;
};

// None if something is dead for some only, or if the uplinks of one NIC, or the links of one group
// to the spines, differ in rate. `capacities`: FabricView::capacities. O(links).
std::optional<LiveBundles> FindLiveBundles(const BundledClos& clos,
                                           std::span<const std::int64_t> capacities);

}  // namespace espalier::controller
