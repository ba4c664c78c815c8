#include "common/fabric/topology_diff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::fabric {
namespace {

using Kind = TopologyChange::Kind;

TopologySpec Spec() { return *BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}); }

std::vector<TopologyChange> Diff(const std::function<void(TopologySpec&)>& change,
                                 const std::function<void(TopologySpec&)>& before = nullptr,
                                 bool with_states = true) {
  TopologySpec old = Spec();
  if (before) before(old);
  TopologySpec now = old;
  change(now);
  return DiffTopologies(*Topology::Build(std::move(old)), *Topology::Build(std::move(now)),
                        with_states);
}

Link& LinkOf(TopologySpec& spec, const std::string& id) {
  return *std::ranges::find_if(spec.links, [&](const Link& link) {
    return spec.nodes[link.a.Index()].id + "--" + spec.nodes[link.b.Index()].id == id;
  });
}

TEST(TopologyDiff, IsEmptyForTheSameNodesAndLinks) {
  EXPECT_TRUE(Diff([](TopologySpec& spec) {
                spec.version = 9;
                std::ranges::reverse(spec.links);
              }).empty());
}

TEST(TopologyDiff, NamesRatesAndStates) {
  const auto change = [](TopologySpec& spec) {
    LinkOf(spec, "leaf0--spine0").rate.value = 400'000'000'000;
    LinkOf(spec, "leaf0--spine1").state = LinkState::kDown;
  };
  const auto before = [](TopologySpec& spec) {
    LinkOf(spec, "leaf0--spine0").rate.value = 100'000'000'000;
  };
  const std::vector<TopologyChange> expected = {
      {true, Kind::kRate, "leaf0--spine0", "100 -> 400 Gbit/s"},
      {true, Kind::kChanged, "leaf0--spine1", "UP -> DOWN"}};
  EXPECT_EQ(Diff(change, before), expected);
  EXPECT_EQ(Diff(change, before, /*with_states=*/false),
            std::vector<TopologyChange>{expected.front()});
}

TEST(TopologyDiff, TellsReCabledLinksByTheirIdsAndPorts) {
  const auto name = [](TopologySpec& spec) {
    LinkOf(spec, "leaf0--spine0").id = "l1";
    LinkOf(spec, "leaf1--spine0").a_port = "Ethernet4";
  };
  const auto diff = Diff(
      [](TopologySpec& spec) {
        const auto spine1 = LinkOf(spec, "leaf0--spine1").b;
        std::ranges::find(spec.links, std::string("l1"), &Link::id)->b = spine1;
        Link& link = *std::ranges::find(spec.links, std::string("Ethernet4"), &Link::a_port);
        link.id = "uplink4";
      },
      name);
  ASSERT_EQ(diff.size(), 2U) << diff.back().id;
  EXPECT_EQ(diff[0].kind, Kind::kRecabled);
  EXPECT_EQ(diff[0].id, "l1");
  EXPECT_EQ(diff[0].detail, "leaf0 -- spine0 -> leaf0 -- spine1");
  EXPECT_EQ(diff[1], (TopologyChange{true, Kind::kChanged, "uplink4", "its id was leaf1--spine0"}));
}

TEST(TopologyDiff, TellsNodesThatComeGoAndChange) {
  const auto diff = Diff([](TopologySpec& spec) {
    Node leaf;
    leaf.id = "leaf9";
    leaf.kind = NodeKind::kSwitch;
    leaf.role = SwitchRole::kLeaf;
    spec.nodes.push_back(leaf);
    for (Node& node : spec.nodes) {
      if (node.id == "spine1") node.multicast = true;
    }
    std::erase_if(spec.links, [](const Link& link) { return link.a_port == "none"; });
  });
  EXPECT_EQ(diff, (std::vector<TopologyChange>{{false, Kind::kAdded, "leaf9", "SWITCH"},
                                               {false, Kind::kChanged, "spine1", "multicast"}}));
}

}  // namespace
}  // namespace espalier::fabric
