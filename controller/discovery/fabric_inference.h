#pragma once

#include "controller/discovery/discovered_fabric.h"
#include "controller/discovery/probe_evidence.h"

namespace espalier::discovery {

// Infers from answers to probes which switches and links a fabric has.
//
// What is not known is left out and reported: addresses that cannot be told to be of one switch
// stay separate switches, and links that only a guess would place are missing. A switch that
// answers nothing, while the next one on the path does, becomes a switch without addresses of its
// own where it can be only one; its links have the mates of the addresses behind it.
//
// What could prove it wrong: probes that show two endpoints behind different switches where it has
// put both behind one (a contradiction); a next hop with a small share (stop_rule.h).
//
// Complexity: O(traces x hops x log), 0.3 s for 64 x 32 switches and 2,048 hosts. Deterministic.
// Thread safety: any thread.
DiscoveredFabric InferFabric(const ProbeEvidence& evidence);

}  // namespace espalier::discovery
