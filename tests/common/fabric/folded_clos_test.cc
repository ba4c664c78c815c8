#include "common/fabric/folded_clos.h"

#include <gtest/gtest.h>

#include <string>

#include "common/fabric/builders.h"
#include "common/fabric/tier_text.h"
#include "tests/common/fabric/clos_shape.h"
#include "tests/seeds.h"

namespace espalier::fabric {
namespace {

struct Recognized {
  explicit Recognized(TopologySpec spec)
      : topology(*Topology::Build(std::move(spec))),
        paths(topology),
        clos(RecognizeFoldedClos(topology, paths)),
        text(DescribeTiers(topology, clos)) {}

  Topology topology;
  PathTable paths;
  tl::expected<FoldedClos, std::string> clos;
  std::string text;
};

// Labels are the paths of the path table, which knows nothing of them.
void ExpectLabelsToBePaths(const Recognized& found) {
  ASSERT_TRUE(found.clos.has_value()) << found.clos.error();
  const FoldedClos& clos = *found.clos;
  for (std::uint32_t a = 0; a < clos.leaves; ++a) {
    for (std::uint32_t b = 0; b < clos.leaves; ++b) {
      if (a == b) continue;
      const auto paths = found.paths.Between(clos.tops[a], clos.tops[b]);
      const std::uint32_t common = clos.CommonBlock(a, b);
      if (common == FoldedClos::kNone) {
        EXPECT_TRUE(paths.empty());
        continue;
      }
      ASSERT_EQ(paths.size(), clos.blocks[common].labels);
      for (std::uint32_t label = 0; label < paths.size(); ++label) {
        const std::int32_t path = clos.PathOf(a, common, label);
        ASSERT_EQ(clos.LabelOf(a, common, path), label);
        std::vector<std::uint32_t> links;
        clos.AppendLinks(a, b, common, label, links);
        const auto& hops = paths[static_cast<std::size_t>(path)].hops;
        ASSERT_EQ(links.size(), hops.size());
        for (std::size_t i = 0; i < hops.size(); ++i) ASSERT_EQ(links[i], hops[i].Index());
      }
    }
  }
}

TEST(FoldedClos, KnowsAnyNumberOfTiersInAnyOrder) {
  const std::vector<ClosShape> shapes = {
      {.children = {3}, .widths = {2}},
      {.children = {1}, .widths = {3}},
      {.children = {2, 3}, .widths = {3, 2}},
      {.children = {3, 1}, .widths = {2, 5}},
      {.children = {1, 3}, .widths = {3, 1}},
      {.children = {2, 3}, .widths = {1, 4}, .parts = 2},
      {.children = {2, 2, 3}, .widths = {2, 3, 2}},
      {.children = {2, 2, 2, 2}, .widths = {2, 1, 3, 2}, .parts = 2}};
  for (ClosShape shape : shapes) {
    for (const bool has_roles : {true, false}) {
      shape.has_roles = has_roles;
      ExpectLabelsToBePaths(Recognized(shape.Build()));
      for (const auto seed : SeedsToTry(1, 10)) {
        SCOPED_TRACE(seed);
        ExpectLabelsToBePaths(Recognized(shape.Build(static_cast<std::uint32_t>(seed))));
      }
    }
  }
}

TEST(FoldedClos, SaysWhatItRecognised) {
  EXPECT_EQ(Recognized(*BuildFatTree({.k = 8})).text,
            "folded Clos of 3 tiers: 8 pods of 4 leaves and 4 aggregation switches, 4 planes of 4 "
            "cores; not narrower upwards");
  EXPECT_EQ(Recognized(*BuildLeafSpine({.spines = 4, .leaves = 3})).text,
            "folded Clos of 2 tiers: 3 leaves and 4 spines; all links between switches have one "
            "rate");
  EXPECT_EQ(Recognized(*BuildRails({.boxes = 2, .rails = 8, .spines = 4})).text,
            "folded Clos of 2 tiers: 8 leaves and 4 spines; all links between switches have one "
            "rate");
  EXPECT_EQ(Recognized(ClosShape{.children = {2}, .widths = {3}, .parts = 4}.Build()).text,
            "folded Clos of 2 tiers: 4 separate parts, 2 leaves and 3 spines; all links between "
            "switches have one rate");
  EXPECT_EQ(Recognized(ClosShape{.children = {4, 3}, .widths = {3, 2}}.Build()).text,
            "folded Clos of 3 tiers: 3 pods of 4 leaves and 3 aggregation switches, 3 planes of 2 "
            "cores; oversubscribed 2:1 above the leaves");
  EXPECT_EQ(
      Recognized(ClosShape{.children = {4, 3}, .widths = {3, 2}, .rates = {1'000, 2'000}}.Build())
          .text,
      "folded Clos of 3 tiers: 3 pods of 4 leaves and 3 aggregation switches, 3 planes of 2 "
      "cores; not narrower upwards");
  EXPECT_EQ(Recognized(ClosShape{.children = {2, 2, 2}, .widths = {2, 2, 1}}.Build()).text,
            "folded Clos of 4 tiers: 4 pods of 2 leaves and 2 aggregation switches, 2 blocks of 2 "
            "children and 4 switches in tier 2, 1 block of 2 children and 4 switches in tier 3; "
            "oversubscribed 2:1 above the leaves");
}

TEST(FoldedClos, AcceptsPodsOfDifferentSizes) {
  TopologySpec spec = *BuildFatTree({.k = 4});
  // The last leaf of the first pod is taken out, with its hosts.
  std::erase_if(spec.links, [&](const Link& link) {
    return spec.nodes[link.a.Index()].id == "leaf1" || spec.nodes[link.b.Index()].id == "leaf1";
  });
  const Recognized found(spec);
  ExpectLabelsToBePaths(found);
  EXPECT_NE(found.text.find("4 pods of 1 to 2 leaves"), std::string::npos) << found.text;
}

// The clause that names what is in the way.
std::string ReasonFor(TopologySpec spec) {
  const Recognized found(std::move(spec));
  EXPECT_NE(found.text.find("general fabric, no folded Clos ("), std::string::npos) << found.text;
  return found.clos ? "recognised" : found.clos.error();
}

TopologySpec FatTreeWith(const std::string& id, const std::string& a, const std::string& b) {
  TopologySpec spec = *BuildFatTree({.k = 4});
  const auto find = [&](const std::string& name) {
    const auto at = std::ranges::find(spec.nodes, name, &Node::id) - spec.nodes.begin();
    return NodeId(static_cast<std::int32_t>(at));
  };
  std::erase_if(spec.links, [&](const Link& link) { return link.id == id; });
  if (!a.empty()) {
    spec.links.push_back({.a = find(a), .b = find(b), .rate = BitsPerSecond{100'000'000'000}});
  }
  return spec;
}

TEST(FoldedClos, TellsWhyAFabricIsGeneral) {
  EXPECT_EQ(ReasonFor(FatTreeWith("", "leaf0", "leaf1")),
            "link leaf0--leaf1 joins two switches of tier 0");
  EXPECT_EQ(ReasonFor(FatTreeWith("", "leaf0", "core0")), "link leaf0--core0 joins tiers 0 and 2");
  EXPECT_EQ(ReasonFor(FatTreeWith("", "leaf0", "agg0")), "several links join leaf0 and agg0");
  EXPECT_EQ(ReasonFor(FatTreeWith("leaf0--agg0", "", "")),
            "agg0 is linked to 1 switches below it, not to one in each of 2 blocks");
  // core0 is linked to another plane, which makes the second pod's planes those of core0.
  EXPECT_EQ(ReasonFor(FatTreeWith("agg2--core0", "agg3", "core0")),
            "core2 is linked across planes");
  TopologySpec roles = *BuildFatTree({.k = 4});
  for (Node& node : roles.nodes) {
    if (node.id == "agg0") node.role = SwitchRole::kLeaf;
  }
  EXPECT_EQ(ReasonFor(roles), "link leaf0--agg0 joins two switches of tier 0");
  TopologySpec hosts = FatTreeWith("h0--leaf0", "", "");
  hosts.links.push_back({.a = NodeId(0), .b = hosts.links.back().b, .rate = BitsPerSecond{1}});
  EXPECT_NE(ReasonFor(hosts).find(" of tier 2 has hosts"), std::string::npos);
  TopologySpec one_way = *BuildFatTree({.k = 4});
  one_way.links.back().directed = true;
  EXPECT_NE(ReasonFor(one_way).find("are linked in one direction only"), std::string::npos);
  // A mesh of leaves.
  TopologySpec mesh = *BuildLeafSpine({.spines = 1, .leaves = 3, .hosts_per_leaf = 1});
  std::erase_if(mesh.links,
                [](const Link& link) { return link.id.find("spine") != std::string::npos; });
  mesh.links.push_back({.a = NodeId(3), .b = NodeId(4), .rate = BitsPerSecond{1}});
  mesh.links.push_back({.a = NodeId(4), .b = NodeId(5), .rate = BitsPerSecond{1}});
  EXPECT_EQ(ReasonFor(mesh), "link leaf0--leaf1 joins two switches of tier 0");
  const ClosShape tower{.children = {1, 1, 1, 1, 1, 1, 1, 1}, .widths = {1, 1, 1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(ReasonFor(tower.Build()), "it has 9 tiers of switches, more than 8");
  const Recognized single(*BuildLeafSpine({.spines = 1, .leaves = 1}));
  EXPECT_TRUE(single.clos.has_value());
  EXPECT_EQ(Recognized(TopologySpec{}).text,
            "no links between switches: no flow has a choice of paths");
}

TEST(FoldedClos, RefusesCoresThatExchangePlanesBetweenPods) {
  // Four tiers: the planes of both halves agree for the cores, but not for the switches below them.
  ClosShape shape{.children = {1, 1, 2}, .widths = {2, 2, 1}};
  TopologySpec spec = shape.Build();
  std::vector<std::size_t> into_second;  // links from tops of the second child, in label order
  for (std::size_t i = 0; i < spec.links.size(); ++i) {
    if (spec.nodes[spec.links[i].b.Index()].id.starts_with("t3")) into_second.push_back(i);
  }
  ASSERT_EQ(into_second.size(), 8U);
  std::swap(spec.links[into_second[1]].a, spec.links[into_second[5]].a);  // labels 0 and 2
  EXPECT_NE(ReasonFor(spec).find("do not agree"), std::string::npos);
}

}  // namespace
}  // namespace espalier::fabric
