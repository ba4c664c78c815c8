// Paths that no source port takes, by the hashes that the topology names.
#include "controller/routing/fabric/unreached_paths.h"

#include <gtest/gtest.h>

#include "common/fabric/builders.h"

namespace espalier::controller {
using fabric::BuildFatTree;
using fabric::EcmpSpec;
using fabric::Node;
using fabric::NodeKind;
using fabric::PathTable;
using fabric::SwitchRole;
using fabric::Topology;
using fabric::TopologySpec;

namespace {

// A fat tree of k = 4 whose switches hash by this function; `seed_of` gives the seed of a switch.
template <typename SeedOf>
Topology FatTree(const std::string& hash, const SeedOf& seed_of) {
  TopologySpec spec = *BuildFatTree({.k = 4});
  std::uint32_t number = 0;
  for (Node& node : spec.nodes) {
    if (node.kind != NodeKind::kSwitch) continue;
    node.ecmp = EcmpSpec{.hash = hash, .seed = seed_of(node.role, number++)};
  }
  return *Topology::Build(spec);
}

UnreachedPaths Find(const Topology& topology) {
  PathTable paths(topology);
  const auto found = FindUnreachedPaths(topology, paths);
  EXPECT_TRUE(found.has_value());
  return *found;
}

TEST(UnreachedPaths, HalfOfThemWhereTiersShareALinearHash) {
  const Topology topology = FatTree("crc32", [](SwitchRole role, std::uint32_t) {
    return role == SwitchRole::kLeaf ? 10U : role == SwitchRole::kSpine ? 20U : 0U;
  });
  const UnreachedPaths found = Find(topology);
  EXPECT_GT(found.pairs, 0U);
  EXPECT_EQ(found.worst_paths, 4U);
  EXPECT_EQ(found.worst_unreached, 2U);
  ASSERT_EQ(found.worst_via.size(), 2U);
  const std::string text = DescribeUnreached(topology, found);
  EXPECT_NE(text.find("no source port takes 2 of 4 paths from"), std::string::npos) << text;
  EXPECT_NE(text.find("(via " + found.worst_via[0] + " or " + found.worst_via[1] + "; "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("polarisation"), std::string::npos);
}

TEST(UnreachedPaths, NoneWhereSwitchesHashDifferently) {
  const Topology topology =
      FatTree("jenkins", [](SwitchRole, std::uint32_t number) { return 1000 + 37 * number; });
  const UnreachedPaths found = Find(topology);
  EXPECT_GT(found.pairs, 0U);
  EXPECT_EQ(found.unreached, 0U);
  EXPECT_EQ(DescribeUnreached(topology, found), "");
}

TEST(UnreachedPaths, NothingIsSaidWhereHashesAreUnknown) {
  const Topology topology = *Topology::Build(*BuildFatTree({.k = 4}));
  EXPECT_EQ(Find(topology).pairs, 0U);
}

}  // namespace
}  // namespace espalier::controller
