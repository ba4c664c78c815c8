#pragma once

#include <string>
#include <vector>

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

}  // namespace espalier::discovery
