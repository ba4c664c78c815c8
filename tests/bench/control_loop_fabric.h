#pragma once

#include "common/fabric/topology.h"

namespace espalier::bench {

// The leaf-spine fabric of the control-loop benchmark, with at least `hosts` hosts: 32 per leaf,
// and CRC32 hashes that the controller knows. With `fat_tree` k, instead, a fat-tree of k^3/4
// hosts.
fabric::Topology MakeBenchTopology(int hosts, int spines = 16, int fat_tree = 0);

// The number of a host under another leaf than `host` (in another pod of a fat-tree); different for
// each n below 32 (in a fat-tree: k/2).
int RemoteHost(int host, int n, int hosts, int fat_tree = 0);

}  // namespace espalier::bench
