#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/builders.h"
#include "controller/routing/model/assignment.h"

namespace espalier::controller {

using Commodities = std::vector<Commodity>;

// A fabric with its path table and view.
struct Fabric {
  explicit Fabric(fabric::TopologySpec spec)
      : topology(*fabric::Topology::Build(std::move(spec))),
        paths(topology),
        view(topology, paths) {}

  static std::unique_ptr<Fabric> LeafSpine(int spines, int leaves) {
    return std::make_unique<Fabric>(
        *fabric::BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = 1}));
  }

  void Fail(std::string_view link) {
    SetState(link, fabric::LinkState::kDown);
    view.Refresh();
  }
  void SetState(std::string_view link, fabric::LinkState state) {
    const auto found = topology.FindLink(link);
    ESPALIER_CHECK(found, "link={}", link);
    topology.SetLinkState(*found, state);
  }
  void FailSpine(int spine) { SetSpineState(spine, fabric::LinkState::kDown); }
  void SetSpineState(int spine, fabric::LinkState state) {
    for (std::uint32_t leaf = 0; leaf < view.leaf_count(); ++leaf) {
      SetState("leaf" + std::to_string(leaf) + "--spine" + std::to_string(spine), state);
    }
    view.Refresh();
  }
  // Fails about this percentage of all switch-to-switch links.
  void FailSome(std::mt19937& random, std::uint32_t percent) {
    for (std::size_t i = 0; i < topology.links().size(); ++i) {
      const fabric::LinkId link(static_cast<std::int32_t>(i));
      if (topology.IsSwitchToSwitch(link) && random() % 100 < percent) {
        topology.SetLinkState(link, fabric::LinkState::kDown);
      }
    }
    view.Refresh();
  }

  fabric::Topology topology;
  fabric::PathTable paths;
  FabricView view;
};

// `per_leaf` flows from each leaf and to each leaf, some within a leaf.
inline Commodities RandomFlows(std::mt19937& random, std::uint32_t leaves, std::uint32_t per_leaf,
                               std::uint32_t subflows = 1, std::uint32_t jobs = 1) {
  std::vector<std::uint32_t> ends(leaves * per_leaf);
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = static_cast<std::uint32_t>(i) / per_leaf;
  std::shuffle(ends.begin(), ends.end(), random);
  Commodities flows;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    flows.push_back({.source = static_cast<std::uint32_t>(i) / per_leaf,
                     .destination = ends[i],
                     .job = static_cast<std::uint32_t>(random() % jobs),
                     .subflows = subflows});
  }
  return flows;
}

}  // namespace espalier::controller
