#include "common/fabric/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/fabric/builders.h"
#include "tests/common/fabric/random_fabric.h"

namespace espalier::fabric {
namespace {

// The oracle: lists every walk without a repeated switch, then filters by the definition.
// Exponential, and independent of the implementation.
class BruteForce {
 public:
  BruteForce(const Topology& topology, PathTable& table) : topology_(topology), table_(table) {}

  std::vector<std::vector<DirectedLink>> ShortestUpDown(NodeId from, NodeId to) {
    to_ = to;
    walks_.clear();
    walk_.clear();
    visited_ = {from};
    Walk(from);
    std::erase_if(walks_, [&](const auto& walk) { return HasValley(walk); });
    std::size_t shortest = SIZE_MAX;
    for (const auto& walk : walks_) shortest = std::min(shortest, walk.size());
    std::erase_if(walks_, [&](const auto& walk) { return walk.size() != shortest; });
    std::sort(walks_.begin(), walks_.end(),
              [&](const auto& x, const auto& y) { return SortKey(x) < SortKey(y); });
    return walks_;
  }

 private:
  void Walk(NodeId at) {
    if (at == to_) {
      walks_.push_back(walk_);
      return;
    }
    if (walk_.size() == 6) return;
    for (std::size_t i = 0; i < 2 * topology_.links().size(); ++i) {
      const DirectedLink hop = DirectedLink::FromIndex(i);
      if (topology_.From(hop) != at || (topology_.link(hop.link).directed && !hop.forward))
        continue;
      const NodeId next = topology_.To(hop);
      if (topology_.node(next).kind != NodeKind::kSwitch || !visited_.insert(next).second) continue;
      walk_.push_back(hop);
      Walk(next);
      walk_.pop_back();
      visited_.erase(next);
    }
  }

  // Not of the form up* level* down*.
  bool HasValley(const std::vector<DirectedLink>& walk) const {
    std::string shape;
    for (const DirectedLink hop : walk) {
      const int step = table_.Tier(topology_.To(hop)) - table_.Tier(topology_.From(hop));
      shape += step > 0 ? 'a' : step == 0 ? 'b' : 'c';
    }
    return !std::is_sorted(shape.begin(), shape.end());
  }

  std::pair<std::vector<int>, std::vector<std::size_t>> SortKey(
      const std::vector<DirectedLink>& walk) const {
    std::pair<std::vector<int>, std::vector<std::size_t>> key;
    for (const DirectedLink hop : walk) {
      key.first.push_back(topology_.To(hop).value());
      key.second.push_back(hop.Index());
    }
    return key;
  }

  const Topology& topology_;
  PathTable& table_;
  NodeId to_;
  std::set<NodeId> visited_;
  std::vector<DirectedLink> walk_;
  std::vector<std::vector<DirectedLink>> walks_;
};

void ExpectSameAsBruteForce(const Topology& topology) {
  PathTable table(topology);
  BruteForce oracle(topology, table);
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    for (std::size_t j = 0; j < topology.nodes().size(); ++j) {
      const NodeId from(static_cast<std::int32_t>(i));
      const NodeId to(static_cast<std::int32_t>(j));
      if (i == j || topology.node(from).kind != NodeKind::kSwitch ||
          topology.node(to).kind != NodeKind::kSwitch) {
        continue;
      }
      const auto expected = oracle.ShortestUpDown(from, to);
      const auto paths = table.Between(from, to);
      ASSERT_EQ(paths.size(), expected.size())
          << topology.name() << " " << topology.node(from).id << " " << topology.node(to).id;
      for (std::size_t p = 0; p < paths.size(); ++p)
        EXPECT_TRUE(std::ranges::equal(paths[p].hops, expected[p]));
    }
  }
}

TEST(PathTable, AgreesWithBruteForceOnRandomFabrics) {
  for (unsigned seed = 1; seed <= 40; ++seed) ExpectSameAsBruteForce(MakeRandomFabric(seed, {}));
}

TEST(PathTable, AgreesWithBruteForceWithoutRoles) {
  for (unsigned seed = 100; seed <= 140; ++seed) {
    ExpectSameAsBruteForce(MakeRandomFabric(seed, {.roles = false}));
  }
}

TEST(PathTable, AgreesWithBruteForceWithLevelAndOneWayLinks) {
  for (unsigned seed = 200; seed <= 240; ++seed) {
    ExpectSameAsBruteForce(MakeRandomFabric(seed, {.level_links = true, .directed_links = true}));
  }
}

Topology LeafSpine(int spines, int leaves) {
  return *Topology::Build(
      *BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = 1}));
}

TEST(PathTable, NumbersPathsBySpine) {
  const Topology topology = LeafSpine(4, 3);
  PathTable table(topology);
  const auto paths = table.Between(*topology.FindNode("leaf0"), *topology.FindNode("leaf2"));
  ASSERT_EQ(paths.size(), 4U);
  for (std::size_t p = 0; p < 4; ++p) {
    EXPECT_EQ(ViaNames(topology, paths[p]), "spine" + std::to_string(p));
    EXPECT_EQ(topology.From(paths[p].hops.front()), *topology.FindNode("leaf0"));
    EXPECT_EQ(topology.To(paths[p].hops.back()), *topology.FindNode("leaf2"));
  }
}

TEST(PathTable, HasOneEmptyPathWithinALeaf) {
  const Topology topology = LeafSpine(4, 3);
  PathTable table(topology);
  const NodeId leaf = *topology.FindNode("leaf1");
  const auto paths = table.Between(leaf, leaf);
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_TRUE(paths[0].hops.empty());
  EXPECT_TRUE(IsUsable(topology, paths[0]));
  EXPECT_EQ(ViaNames(topology, paths[0]), "");
}

TEST(PathTable, NumbersPathsAlikeWhateverTheLinkStates) {
  Topology topology = LeafSpine(4, 3);
  const LinkId dead = *topology.FindLink("leaf2--spine1");
  const LinkId drained = *topology.FindLink("leaf0--spine3");
  PathTable before(topology);
  const NodeId from = *topology.FindNode("leaf0");
  const NodeId to = *topology.FindNode("leaf2");
  const auto healthy = before.Between(from, to);
  EXPECT_TRUE(topology.SetLinkState(dead, LinkState::kDown));
  EXPECT_TRUE(topology.SetLinkState(drained, LinkState::kDrained));
  PathTable after(topology);
  const auto broken = after.Between(from, to);
  ASSERT_EQ(broken.size(), healthy.size());
  for (std::size_t p = 0; p < 4; ++p) {
    EXPECT_TRUE(std::ranges::equal(broken[p].hops, healthy[p].hops));
    EXPECT_EQ(IsUsable(topology, broken[p]), p != 1 && p != 3);
    EXPECT_EQ(IsAlive(topology, broken[p]), p != 1);
  }
}

TEST(PathTable, NeverClimbsTwice) {
  // The only walk is leaf0 - spine0 - leaf2 - spine1 - leaf1, which no switch uses.
  TopologySpec spec = *BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 1});
  std::erase_if(spec.links, [](const Link& link) {
    return link.id == "leaf0--spine1" || link.id == "leaf1--spine0";
  });
  const Topology topology = *Topology::Build(spec);
  PathTable table(topology);
  EXPECT_TRUE(table.Between(*topology.FindNode("leaf0"), *topology.FindNode("leaf1")).empty());
  EXPECT_EQ(table.Between(*topology.FindNode("leaf0"), *topology.FindNode("leaf2")).size(), 1U);
}

TEST(PathTable, ListsAtMostTheLimitOfPaths) {
  TopologySpec spec;  // 17 stages of two parallel links: 2^17 paths
  for (int i = 0; i <= 17; ++i) {
    spec.nodes.emplace_back().id = std::to_string(i);
    spec.nodes.back().kind = NodeKind::kSwitch;
    for (int parallel = 0; i > 0 && parallel < 2; ++parallel) {
      Link& link = spec.links.emplace_back();
      link.a = NodeId(i - 1);
      link.b = NodeId(i);
      link.rate = BitsPerSecond{1};
    }
  }
  const Topology topology = *Topology::Build(spec);
  PathTable table(topology);
  EXPECT_EQ(table.Between(NodeId(0), NodeId(17)).size(), PathTable::kMaxPathsPerPair);
  EXPECT_EQ(table.Between(NodeId(0), NodeId(10)).size(), 1024U);
}

TEST(PathTable, AttachesNicsToTheirSwitchOrToThemselves) {
  TopologySpec spec = *BuildLeafSpine({.spines = 1, .leaves = 2, .hosts_per_leaf = 1});
  Link second = spec.links[0];  // h0 has a second uplink
  second.id = "h0--leaf1";
  second.b = spec.links[1].b;
  second.a_address = second.b_address = IpAddress();
  spec.links.push_back(second);
  spec.nodes.emplace_back().id = "lonely";
  const Topology topology = *Topology::Build(spec);
  PathTable table(topology);
  const auto itself = table.FindAttachment(*topology.FindNode("h0"));
  ASSERT_TRUE(itself.has_value());
  EXPECT_EQ(itself->leaf, *topology.FindNode("h0"));
  EXPECT_FALSE(itself->uplink.has_value());
  EXPECT_FALSE(table.FindAttachment(*topology.FindNode("lonely")).has_value());
  EXPECT_FALSE(table.FindAttachment(*topology.FindNode("spine0")).has_value());
  const auto attached = table.FindAttachment(*topology.FindNode("h1"));
  ASSERT_TRUE(attached.has_value());
  EXPECT_EQ(topology.DirectionName(*attached->uplink), "h1--leaf1>leaf1");
}

}  // namespace
}  // namespace espalier::fabric
