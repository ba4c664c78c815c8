#pragma once

#include <string>

#include "common/fabric/builders.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// Switches 0-2 are leaves, 3 and 4 spines; hosts 5-10 are h0 ... h5, two on a leaf.
inline fabric::Topology MakeFabric() {
  return *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}));
}

// "h0>h1 h1>h0 250": the flows, and the bytes of each round.
inline std::string RingOf(const fabric::Topology& topology, const Exchange& ring) {
  std::string text;
  for (const auto& flow : ring.flows) {
    text += topology.node(flow.source).id + ">" + topology.node(flow.destination).id + " ";
  }
  return text + std::to_string(ring.round_bytes);
}

}  // namespace espalier::offline
