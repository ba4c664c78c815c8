#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::controller {

// A two-tier fabric of bundles. NICs "n0", ... choose among the leaves of their group, or, with one
// leaf and one uplink a NIC, are on it alone; leaves "l0", ..., spines "s0", ....
struct BundledShape {
  int groups = 2;
  int nics = 2;    // of a group
  int leaves = 2;  // of a group
  int spines = 2;
  int uplinks = 1;  // links of a NIC and each of its leaves
  int members = 1;  // links of a leaf and a spine
  std::int64_t uplink_gbps = 100;
  std::int64_t fabric_gbps = 100;
};

// The order of nodes and links in the file is shuffled, which decides the numbers of paths.
inline fabric::TopologySpec MakeBundled(const BundledShape& shape, std::mt19937& random) {
  fabric::TopologySpec spec;
  const auto add = [&](std::string id, fabric::NodeKind kind, fabric::SwitchRole role) {
    fabric::Node node;
    node.id = std::move(id);
    node.kind = kind;
    node.role = role;
    spec.nodes.push_back(std::move(node));
  };
  for (int n = 0; n < shape.groups * shape.nics; ++n) {
    add(fmt::format("n{}", n), fabric::NodeKind::kNic, fabric::SwitchRole::kNone);
  }
  for (int l = 0; l < shape.groups * shape.leaves; ++l) {
    add(fmt::format("l{}", l), fabric::NodeKind::kSwitch, fabric::SwitchRole::kLeaf);
  }
  for (int s = 0; s < shape.spines; ++s) {
    add(fmt::format("s{}", s), fabric::NodeKind::kSwitch, fabric::SwitchRole::kSpine);
  }
  std::shuffle(spec.nodes.begin(), spec.nodes.end(), random);
  const auto find = [&](const std::string& id) {
    const auto at = std::ranges::find(spec.nodes, id, &fabric::Node::id);
    return fabric::NodeId(static_cast<std::int32_t>(at - spec.nodes.begin()));
  };
  const auto join = [&](const std::string& a, const std::string& b, int count, std::int64_t gbps) {
    for (int i = 0; i < count; ++i) {
      fabric::Link link;
      link.a = find(a);
      link.b = find(b);
      if (random() % 2 == 0) std::swap(link.a, link.b);
      link.id = fmt::format("{}-{}.{}", a, b, i);
      link.rate = BitsPerSecond{gbps * 1'000'000'000};
      spec.links.push_back(std::move(link));
    }
  };
  for (int group = 0; group < shape.groups; ++group) {
    for (int l = group * shape.leaves; l < (group + 1) * shape.leaves; ++l) {
      for (int n = group * shape.nics; n < (group + 1) * shape.nics; ++n) {
        join(fmt::format("n{}", n), fmt::format("l{}", l), shape.uplinks, shape.uplink_gbps);
      }
      for (int s = 0; s < shape.spines; ++s) {
        join(fmt::format("l{}", l), fmt::format("s{}", s), shape.members, shape.fabric_gbps);
      }
    }
  }
  std::shuffle(spec.links.begin(), spec.links.end(), random);
  return spec;
}

}  // namespace espalier::controller
