#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "common/fabric/topology.h"

namespace espalier::offline {

// A fabric for tests: two leaves with two hosts each, h0 and h1, h2 and h3, and two spines. Every
// link has 100 Gbit/s, except the one from leaf0 to spine1.
inline fabric::Topology TwoLeaves(std::int64_t leaf0_spine1_gbps = 100) {
  auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2});
  auto topology = *fabric::Topology::Build(std::move(spec));
  spec = topology.Spec();
  const auto slow = topology.FindLink("leaf0--spine1");
  spec.links[slow->Index()].rate.value = leaf0_spine1_gbps * 1'000'000'000;
  return *fabric::Topology::Build(std::move(spec));
}

// The links through these nodes, as DirectedLink::Index.
inline std::vector<std::uint32_t> LinksThrough(const fabric::Topology& topology,
                                               std::initializer_list<std::string_view> nodes) {
  std::vector<std::uint32_t> links;
  for (auto node = nodes.begin(); node + 1 != nodes.end(); ++node) {
    for (const fabric::DirectedLink link : topology.Outgoing(*topology.FindNode(*node))) {
      if (topology.node(topology.To(link)).id != *(node + 1)) continue;
      links.push_back(static_cast<std::uint32_t>(link.Index()));
    }
  }
  return links;
}

}  // namespace espalier::offline
