// Failure domains and the links that they include.
#include "controller/planning/link_or_switch.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using fabric::LinkId;
using fabric::NodeId;

TEST(LinkOrSwitch, IncludesItselfOrTheLinksOfItsSwitch) {
  const auto topology = fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}));
  ASSERT_TRUE(topology.has_value());
  const NodeId spine = *topology->FindNode("spine0");
  for (std::size_t i = 0; i < topology->links().size(); ++i) {
    const LinkId link(static_cast<std::int32_t>(i));
    const fabric::Link& ends = topology->link(link);
    EXPECT_EQ(LinkOrSwitch::Switch(spine).Includes(*topology, link),
              ends.a == spine || ends.b == spine);
    EXPECT_EQ(LinkOrSwitch::Link(LinkId(1)).Includes(*topology, link), i == 1);
  }
}

TEST(LinkOrSwitch, ALinkDiffersFromTheSwitchOfItsNumberAndComesFirst) {
  const auto link = LinkOrSwitch::Link(LinkId(3));
  const auto node = LinkOrSwitch::Switch(NodeId(3));
  EXPECT_NE(link, node);
  EXPECT_TRUE(link.IsLink());
  EXPECT_FALSE(node.IsLink());
  EXPECT_EQ(link.link(), LinkId(3));
  EXPECT_EQ(node.node(), NodeId(3));
  EXPECT_LT(LinkOrSwitch::Link(LinkId(9)), LinkOrSwitch::Switch(NodeId(0)));
  EXPECT_LT(LinkOrSwitch::Link(LinkId(8)), LinkOrSwitch::Link(LinkId(9)));
}

}  // namespace
}  // namespace espalier::controller
