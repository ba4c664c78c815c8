#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::fabric {

// A folded Clos for tests: any number of tiers, in any order of nodes and links.
struct ClosShape {
  // By tier from 1: blocks of the tier below in a block, and switches above each top of those.
  // {4, 2} and {3, 5}: 2 pods of 4 leaves and 3 aggregation switches, each linked to 5 cores.
  std::vector<int> children;
  std::vector<int> widths;
  std::vector<std::int64_t> rates;  // of the links below the switches of a tier, by tier from 1
  int parts = 1;
  bool has_roles = true;  // of up to three tiers

  // Shuffles nodes, links, and the ends of links, if there is a seed.
  TopologySpec Build(std::uint32_t seed = 0) const {
    TopologySpec spec;
    spec.name = "clos";
    for (int part = 0; part < parts; ++part) AddBlock(spec, static_cast<int>(children.size()));
    if (seed != 0) Shuffle(spec, seed);
    return spec;
  }

 private:
  // Returns its tops, by label.
  std::vector<NodeId> AddBlock(TopologySpec& spec, int tier) const {
    static constexpr SwitchRole kRoles[] = {SwitchRole::kLeaf, SwitchRole::kSpine,
                                            SwitchRole::kCore};
    const auto add = [&](NodeKind kind, const std::string& name) {
      Node& node = spec.nodes.emplace_back();
      node.kind = kind;
      node.id = name + std::to_string(spec.nodes.size());
      return NodeId(static_cast<std::int32_t>(spec.nodes.size() - 1));
    };
    const auto link = [&](NodeId a, NodeId b, std::int64_t rate) {
      spec.links.push_back({.a = a, .b = b, .rate = BitsPerSecond{rate}});
    };
    const auto add_switch = [&] {
      const NodeId node = add(NodeKind::kSwitch, "t" + std::to_string(tier) + "s");
      if (has_roles && children.size() < 3) {
        spec.nodes.back().role = kRoles[static_cast<std::size_t>(tier)];
      }
      return node;
    };
    if (tier == 0) {
      const NodeId leaf = add_switch();
      link(add(NodeKind::kCompute, "h"), leaf, 1'000);
      spec.nodes.back().host = spec.nodes.back().id;
      return {leaf};
    }
    const auto at = static_cast<std::size_t>(tier - 1);
    std::vector<std::vector<NodeId>> below;
    for (int i = 0; i < children[at]; ++i) below.push_back(AddBlock(spec, tier - 1));
    std::vector<NodeId> tops;
    for (std::size_t label = 0; label < below.front().size(); ++label) {
      for (int i = 0; i < widths[at]; ++i) {
        tops.push_back(add_switch());
        for (const auto& child : below) {
          link(child[label], tops.back(), rates.empty() ? 1'000 : rates[at]);
        }
      }
    }
    return tops;
  }

  static void Shuffle(TopologySpec& spec, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::size_t> order(spec.nodes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Node> nodes(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) nodes[order[i]] = std::move(spec.nodes[i]);
    spec.nodes = std::move(nodes);
    for (Link& link : spec.links) {
      link.a = NodeId(static_cast<std::int32_t>(order[link.a.Index()]));
      link.b = NodeId(static_cast<std::int32_t>(order[link.b.Index()]));
      if (random() % 2 == 0) std::swap(link.a, link.b);
    }
    std::shuffle(spec.links.begin(), spec.links.end(), random);
  }
};

}  // namespace espalier::fabric
