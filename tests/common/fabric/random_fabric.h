#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::fabric {

// Makes small irregular fabrics for property tests: tiers of switches with missing, parallel and
// sometimes level or one-way links, and a host on some of the leaves.
struct RandomFabricOptions {
  bool roles = true;  // false: tiers must be derived from the hosts
  bool level_links = false;
  bool directed_links = false;
  std::string_view hash;  // of every switch, each with its own seed; empty: none
};

inline Topology MakeRandomFabric(unsigned seed, const RandomFabricOptions& options) {
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  TopologySpec spec;
  spec.name = fmt::format("random-{}", seed);
  const auto add_node = [&](std::string id, NodeKind kind, SwitchRole role) {
    Node& node = spec.nodes.emplace_back();
    node.id = std::move(id);
    node.kind = kind;
    node.role = options.roles ? role : SwitchRole::kNone;
    if (kind == NodeKind::kSwitch && !options.hash.empty()) {
      node.ecmp = EcmpSpec{std::string(options.hash), spec.nodes.size()};
    }
    return NodeId(static_cast<std::int32_t>(spec.nodes.size() - 1));
  };
  const auto add_link = [&](NodeId a, NodeId b) {
    Link& link = spec.links.emplace_back();
    const bool turned = random() % 2 == 0;
    link.a = turned ? b : a;
    link.b = turned ? a : b;
    link.rate = BitsPerSecond{1'000'000'000};
    link.directed = options.directed_links && random() % 4 == 0;
  };

  std::vector<std::vector<NodeId>> tiers(static_cast<std::size_t>(pick(2, 3)));
  constexpr SwitchRole kRoles[] = {SwitchRole::kLeaf, SwitchRole::kSpine, SwitchRole::kCore};
  for (std::size_t t = 0; t < tiers.size(); ++t) {
    const int count = pick(2, 4);
    for (int i = 0; i < count; ++i) {
      tiers[t].push_back(add_node(fmt::format("t{}s{}", t, i), NodeKind::kSwitch, kRoles[t]));
    }
  }
  for (std::size_t t = 0; t + 1 < tiers.size(); ++t) {
    for (const NodeId lower : tiers[t]) {
      for (const NodeId upper : tiers[t + 1]) {
        const int parallels = pick(0, 2);
        for (int i = 0; i < parallels; ++i) add_link(lower, upper);
      }
    }
  }
  for (const auto& tier : tiers) {
    if (options.level_links && pick(0, 1) == 1) add_link(tier[0], tier[1]);
  }
  for (const NodeId leaf : tiers[0]) {
    const NodeId host =
        add_node(fmt::format("h{}", leaf.value()), NodeKind::kCompute, SwitchRole::kNone);
    spec.nodes.back().ecmp.reset();
    spec.nodes.back().addresses = {
        IpAddress::FromV4(0x0a000001 + (static_cast<std::uint32_t>(leaf.value()) << 8))};
    Link& link = spec.links.emplace_back();
    link.a = host;
    link.b = leaf;
    link.rate = BitsPerSecond{1'000'000'000};
  }
  std::shuffle(spec.links.begin(), spec.links.end(), random);
  auto topology = Topology::Build(std::move(spec));
  EXPECT_TRUE(topology.has_value()) << topology.error().error.message;
  return *topology;
}

}  // namespace espalier::fabric
