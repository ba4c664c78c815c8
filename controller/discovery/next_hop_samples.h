#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "controller/discovery/address_traits.h"
#include "controller/discovery/discovered_fabric.h"

namespace espalier::discovery {

// The switch of a hop of a trace, as far as it is known.
using SwitchOfHop = std::function<std::optional<SwitchIndex>(const CleanTrace&, std::size_t hop)>;

// Counts at each switch which next hops in a higher tier its answers show. Every link leads up from
// one of its ends, so the choices downwards need no count. O(traces x hops x log).
std::vector<NextHopChoice> CountNextHops(std::span<const CleanTrace> traces,
                                         const DiscoveredFabric& fabric,
                                         const SwitchOfHop& switch_of);

// The chance that no choice lacks a next hop of equal share, at least (by the sum of the chances
// that one does); 0 without any choice.
double ConfidenceOf(std::span<const NextHopChoice> choices);

}  // namespace espalier::discovery
