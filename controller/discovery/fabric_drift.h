#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/discovery/discovered_fabric.h"
#include "controller/discovery/probe_evidence.h"

namespace espalier::discovery {

// What a later discovery of the same fabric shows otherwise: links that are new or gone, and NICs
// that are attached elsewhere, as sentences. Links are compared by the addresses of their ends. A
// link is gone only if the later discovery has seen its lower switch, and NICs count only if they
// took part in both, so that hosts that are down change nothing.
//
// What could prove it wrong: a link whose next hop was missed by chance counts as gone, which the
// confidence of the later discovery bounds. O((links + nics) log).
std::vector<std::string> FindDrift(const DiscoveredFabric& before,
                                   const std::vector<Endpoint>& nics_before,
                                   const DiscoveredFabric& after,
                                   const std::vector<Endpoint>& nics_after);

// Where a discovered fabric differs from a given topology, as sentences, at most kMostDifferences
// and then one that counts the others: switches and links that the topology does not have, links
// between switches that no probe has met, and NICs that are attached elsewhere. Interfaces are
// compared by their addresses, so links of the topology without any address are not compared. Nor
// are links that are not UP, switches below which no NIC took part, and hosts without an agent.
// From an empty topology, with which a controller begins that is given none, nothing differs.
//
// What could prove it wrong: as FindDrift; and a link that no source port reaches, as the hashes of
// switches are alike, counts as one that no probe has met. O((links + nics) log).
inline constexpr std::size_t kMostDifferences = 1'000;
std::vector<std::string> CompareWithTopology(const fabric::Topology& topology,
                                             const DiscoveredFabric& found,
                                             const std::vector<Endpoint>& nics);

}  // namespace espalier::discovery
