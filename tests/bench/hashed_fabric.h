#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/fabric/builders.h"
#include "common/fabric/topology.h"

namespace espalier::bench {

// A leaf-spine fabric whose topology names the hash of every switch, so that all ports are
// predicted and no probes are needed.
inline fabric::Topology MakeHashedLeafSpine(int spines, int leaves, int hosts_per_leaf) {
  fabric::TopologySpec spec = *fabric::BuildLeafSpine(
      {.spines = spines, .leaves = leaves, .hosts_per_leaf = hosts_per_leaf});
  std::uint64_t seed = 1;
  for (fabric::Node& node : spec.nodes) {
    if (node.kind == fabric::NodeKind::kSwitch) node.ecmp = {"crc32", seed++};
  }
  return *fabric::Topology::Build(std::move(spec));
}

inline std::string HostName(int host) { return "h" + std::to_string(host); }

inline IpAddress AddressOf(const fabric::Topology& topology, int host) {
  return topology.node(*topology.FindNode(HostName(host))).addresses.front();
}

}  // namespace espalier::bench
