#include "controller/routing/fabric/bundled_clos.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "controller/routing/fabric/live_bundles.h"
#include "tests/controller/routing/bundled_fabric.h"
#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

BundledShape RandomBundles(std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  BundledShape shape{.groups = draw(2, 4),
                     .nics = draw(1, 3),
                     .leaves = draw(1, 3),
                     .spines = draw(1, 4),
                     .uplinks = draw(1, 2),
                     .members = draw(1, 3)};
  // One uplink a NIC: then parallel links make the bundles.
  if (shape.leaves * shape.uplinks == 1) shape.members = draw(2, 3);
  return shape;
}

// All choices of a path and their links: the path of that index has exactly these.
TEST(BundledClos, NumbersPathsAsThePathTableDoes) {
  int compared = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const BundledShape shape = RandomBundles(random);
    const Fabric fabric(MakeBundled(shape, random));
    if (fabric.view.folded_clos()) continue;
    ASSERT_TRUE(fabric.view.bundled_clos());
    const BundledClos& clos = *fabric.view.bundled_clos();
    EXPECT_EQ(clos.groups.size(), static_cast<std::size_t>(shape.groups));
    const auto end = [&] {
      return static_cast<std::uint32_t>(random() % fabric.view.leaf_count());
    };
    for (int i = 0; i < 40; ++i) {
      const std::uint32_t from = end();
      const std::uint32_t to = end();
      if (from == to) continue;
      const auto& of_from = clos.groups[clos.group_of[from]];
      const auto& of_to = clos.groups[clos.group_of[to]];
      const auto any = [&](std::size_t count) {
        return static_cast<std::uint32_t>(random() % count);
      };
      BundledClos::Choices choices{.out_leaf = any(of_from.leaves.size()),
                                   .out_member = any(clos.uplinks),
                                   .spine = any(clos.spines),
                                   .up_member = any(clos.members),
                                   .down_member = any(clos.members),
                                   .in_leaf = any(of_to.leaves.size()),
                                   .in_member = any(clos.uplinks)};
      const bool is_within = clos.group_of[from] == clos.group_of[to];
      if (is_within) choices.in_leaf = choices.out_leaf;
      std::vector<std::uint32_t> expected;
      if (clos.has_uplinks) {
        expected.push_back(clos.UplinksOf(from, choices.out_leaf)[choices.out_member]);
      }
      if (!is_within) {
        expected.push_back(clos.MembersOf(of_from.first_leaf + choices.out_leaf,
                                          choices.spine)[choices.up_member]);
        expected.push_back(
            clos.MembersOf(of_to.first_leaf + choices.in_leaf, choices.spine)[choices.down_member] ^
            1U);
      }
      if (clos.has_uplinks) {
        expected.push_back(clos.UplinksOf(to, choices.in_leaf)[choices.in_member] ^ 1U);
      }
      std::vector<std::uint32_t> links;
      fabric.view.AppendHops(from, to, clos.PathOf(from, to, choices), links);
      EXPECT_EQ(links, expected);
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
}

TEST(BundledClos, IsNotFoundWhereGroupsOrBundlesDiffer) {
  std::mt19937 random(1);
  const auto find = [&](fabric::TopologySpec spec) {
    return Fabric(std::move(spec)).view.bundled_clos().has_value();
  };
  const auto spec = MakeBundled({}, random);
  EXPECT_TRUE(find(spec));
  const auto without = [&](const std::string& link) {
    auto changed = spec;
    std::erase_if(changed.links, [&](const fabric::Link& each) { return each.id == link; });
    return changed;
  };
  EXPECT_FALSE(find(without("l0-s1.0"))) << "a leaf that does not reach a spine";
  EXPECT_FALSE(find(without("n0-l1.0"))) << "a NIC with one uplink among others with two";
  auto crossed = spec;
  for (fabric::Link& link : crossed.links) {
    if (link.id != "n0-l1.0") continue;
    const auto leaf = std::ranges::find(crossed.nodes, "l2", &fabric::Node::id);
    const fabric::NodeId to(static_cast<std::int32_t>(leaf - crossed.nodes.begin()));
    (crossed.nodes[link.a.Index()].id == "l1" ? link.a : link.b) = to;
  }
  EXPECT_FALSE(find(crossed)) << "groups that overlap";
  auto directed = spec;
  directed.links.front().directed = true;
  EXPECT_FALSE(find(directed));
  auto peers = spec;
  fabric::Link peer;
  const auto node = [&](const std::string& id) {
    const auto at = std::ranges::find(peers.nodes, id, &fabric::Node::id);
    return fabric::NodeId(static_cast<std::int32_t>(at - peers.nodes.begin()));
  };
  peer.a = node("l0");
  peer.b = node("l1");
  peer.rate = BitsPerSecond{1};
  peers.links.push_back(peer);
  EXPECT_TRUE(find(peers)) << "no path takes the peer link of a pair of leaves";
  peers.links.back().b = node("l2");
  EXPECT_FALSE(find(peers)) << "a shorter path between two groups";
}

TEST(LiveBundles, LeaveOutWhatIsDeadForAll) {
  std::mt19937 random(2);
  Fabric fabric(MakeBundled({.members = 2}, random));
  ASSERT_TRUE(fabric.view.bundled_clos());
  const auto live = [&] {
    return FindLiveBundles(*fabric.view.bundled_clos(), fabric.view.capacities());
  };
  ASSERT_TRUE(live());
  EXPECT_EQ(live()->spines.size(), 2U);
  fabric.Fail("l0-s0.0");
  EXPECT_FALSE(live()) << "one bundle has fewer members";
  for (const char* const link : {"l0-s1.1", "l1-s0.1", "l1-s1.0"}) fabric.Fail(link);
  ASSERT_TRUE(live()) << "all bundles of the group have one member less";
  fabric.Fail("n0-l0.0");
  EXPECT_FALSE(live()) << "one NIC of the leaf";
  fabric.Fail("n1-l0.0");
  ASSERT_TRUE(live()) << "the leaf is dead for all";
  EXPECT_EQ(live()
                ->groups[fabric.view.bundled_clos()
                             ->group_of[*fabric.view.LeafOf(*fabric.topology.FindNode("n0"))]]
                .leaves.size(),
            1U);
}

}  // namespace
}  // namespace espalier::controller
