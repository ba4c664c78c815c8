#pragma once

#include "common/fabric/topology.h"

namespace espalier::bench {

// The leaf-spine fabric of the control-loop benchmark, with at least `hosts` hosts: 32 per leaf,
// and CRC32 hashes that the controller knows.
fabric::Topology MakeBenchTopology(int hosts, int spines = 16);

// The number of a host under another leaf than `host`; different for each n below 32.
int RemoteHost(int host, int n, int hosts);

}  // namespace espalier::bench
