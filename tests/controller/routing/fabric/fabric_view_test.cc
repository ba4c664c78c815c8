#include "controller/routing/fabric/fabric_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {
namespace {

std::vector<std::uint32_t> HopsOf(const FabricView& view, std::uint32_t source,
                                  std::uint32_t destination, std::int32_t path) {
  std::vector<std::uint32_t> hops;
  view.AppendHops(source, destination, path, hops);
  return hops;
}

// Listed paths and paths of the Clos have the same numbers, in fabrics of every shape and with
// links that are down.
void ExpectPathsOfTheTable(Fabric& fabric) {
  for (std::uint32_t u = 0; u < fabric.view.leaf_count(); ++u) {
    EXPECT_EQ(fabric.view.LeafOf(fabric.view.LeafNode(u)), u);
    for (std::uint32_t v = 0; v < fabric.view.leaf_count(); ++v) {
      if (u == v) continue;
      const auto expected = fabric.paths.Between(fabric.view.LeafNode(u), fabric.view.LeafNode(v));
      const CandidatePaths& paths = fabric.view.Candidates(u, v);
      ASSERT_EQ(paths.size(), expected.size());
      for (std::size_t p = 0; p < paths.size(); ++p) {
        std::vector<std::uint32_t> hops;
        for (const auto hop : expected[p].hops) {
          hops.push_back(static_cast<std::uint32_t>(hop.Index()));
        }
        EXPECT_TRUE(std::ranges::equal(paths.Hops(p), hops));
        EXPECT_EQ(HopsOf(fabric.view, u, v, static_cast<std::int32_t>(p)), hops);
        EXPECT_EQ(fabric.view.IsUsable(hops), fabric::IsUsable(fabric.topology, expected[p]));
      }
    }
  }
}

TEST(FabricView, NumbersPathsAsTheTableDoes) {
  std::mt19937 random(7);
  auto clos = Fabric::LeafSpine(5, 4);
  EXPECT_TRUE(clos->view.clos().has_value());
  ExpectPathsOfTheTable(*clos);
  clos->FailSome(random, 30);
  ExpectPathsOfTheTable(*clos);
  Fabric deep(*fabric::BuildFatTree({.k = 4}));
  EXPECT_FALSE(deep.view.clos().has_value());
  ExpectPathsOfTheTable(deep);
}

// If a leaf has no link to a spine, the numbers of paths and spines differ.
TEST(FabricView, SpinesAndPathsOfAClosWithoutSomeLinksAgree) {
  auto spec = *fabric::BuildLeafSpine({.spines = 70, .leaves = 3, .hosts_per_leaf = 1});
  std::erase_if(spec.links, [](const fabric::Link& link) {
    return link.id == "leaf0--spine1" || link.id == "leaf1--spine0" || link.id == "leaf1--spine66";
  });
  Fabric fabric(std::move(spec));
  ASSERT_TRUE(fabric.view.clos().has_value());
  const Clos& clos = *fabric.view.clos();
  EXPECT_FALSE(clos.all_known);
  EXPECT_EQ(clos.words, 2U);
  ExpectPathsOfTheTable(fabric);
  for (const auto& [u, v] : {std::pair(0U, 1U), std::pair(1U, 2U), std::pair(2U, 0U)}) {
    for (std::int32_t path = 0;
         path < static_cast<std::int32_t>(fabric.view.Candidates(u, v).size()); ++path) {
      EXPECT_EQ(clos.PathThrough(u, v, clos.SpineOf(u, v, path)), path);
    }
  }
}

TEST(FabricView, OnlyLinksThatAreUpTakeNewFlows) {
  auto fabric = Fabric::LeafSpine(2, 2);
  const auto capacity = [&](const char* link) {
    const fabric::LinkId id = *fabric->topology.FindLink(link);
    const auto forward = fabric->view.capacities()[fabric::DirectedLink{id, true}.Index()];
    const auto backward = fabric->view.capacities()[fabric::DirectedLink{id, false}.Index()];
    EXPECT_EQ(backward, forward);
    return forward;
  };
  const std::int64_t unit = fabric->view.unit_bps();
  EXPECT_EQ(capacity("leaf0--spine0"), unit);
  fabric->SetState("leaf0--spine0", fabric::LinkState::kDrained);
  EXPECT_EQ(capacity("leaf0--spine0"), unit) << "unchanged until Refresh";
  fabric->view.Refresh();
  EXPECT_EQ(capacity("leaf0--spine0"), 0);
  fabric->Fail("leaf1--spine1");
  EXPECT_EQ(capacity("leaf1--spine1"), 0);
  EXPECT_EQ(fabric->view.clos()->up_live[0], 0b10U);
  EXPECT_EQ(fabric->view.clos()->down_live[1], 0b01U);
  EXPECT_EQ(fabric->view.unit_bps(), unit);
  fabric->SetState("leaf0--spine0", fabric::LinkState::kUp);
  fabric->view.Refresh();
  EXPECT_EQ(capacity("leaf0--spine0"), unit);
}

TEST(FabricView, IsAClosOnlyWithoutParallelLinks) {
  auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  const auto found = std::ranges::find(spec.links, "leaf1--spine1", &fabric::Link::id);
  fabric::Link again = *found;
  again.id += "#2";
  again.a_address = again.b_address = IpAddress();
  spec.links.push_back(again);
  const Fabric fabric(std::move(spec));
  EXPECT_FALSE(fabric.view.clos().has_value());
}

TEST(FabricView, TellsLinksBetweenSwitchesFromThoseOfHosts) {
  auto fabric = Fabric::LeafSpine(3, 2);
  int leaves = 0;
  int enters = 0;
  fabric->view.ForEachLeafLink([&](std::uint32_t leaf, std::uint32_t link, bool leaves_it) {
    EXPECT_LT(leaf, 2U);
    EXPECT_TRUE(fabric->view.IsSwitchLink(link));
    ++(leaves_it ? leaves : enters);
  });
  EXPECT_EQ(leaves, 6);
  EXPECT_EQ(enters, 6);
  const fabric::LinkId host = *fabric->topology.FindLink("h0--leaf0");
  EXPECT_FALSE(fabric->view.IsSwitchLink(
      static_cast<std::uint32_t>(fabric::DirectedLink{host, true}.Index())));
  EXPECT_EQ(fabric->view.LeafOf(*fabric->topology.FindNode("spine0")), std::nullopt);
}

}  // namespace
}  // namespace espalier::controller
