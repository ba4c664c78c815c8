#include "controller/paths/path_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/common/fabric/random_fabric.h"

namespace espalier::controller {
namespace {

using fabric::NodeId;

using fabric::PathIndex;
using testing::ElementsAre;
using testing::IsEmpty;

// Whether the hops that probes of these TTLs see are others on each path.
bool TellApart(std::span<const fabric::Path> paths, std::span<const std::uint8_t> ttls) {
  const auto seen = [&](const fabric::Path& path) {
    std::vector<std::size_t> hops;
    for (const std::uint8_t ttl : ttls) hops.push_back(path.hops[ttl - 2U].Index());
    return hops;
  };
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t j = i + 1; j < paths.size(); ++j) {
      if (seen(paths[i]) == seen(paths[j])) return false;
    }
  }
  return true;
}

TEST(PathAnswers, AskEachHopUntilPathsPart) {
  int compared = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const fabric::Topology topology = fabric::MakeRandomFabric(seed, {.level_links = false});
    fabric::PathTable table(topology);
    for (std::size_t from = 0; from < topology.nodes().size(); ++from) {
      for (std::size_t to = 0; to < topology.nodes().size(); ++to) {
        const NodeId a(static_cast<std::int32_t>(from));
        const NodeId b(static_cast<std::int32_t>(to));
        const bool are_switches = topology.node(a).kind == fabric::NodeKind::kSwitch &&
                                  topology.node(b).kind == fabric::NodeKind::kSwitch;
        if (!are_switches || a == b) continue;
        const auto paths = table.Between(a, b);
        const auto ttls = DistinguishingTtls(topology, paths);
        if (paths.size() < 2) {
          EXPECT_THAT(ttls, IsEmpty());
          continue;
        }
        ++compared;
        ASSERT_FALSE(ttls.empty());
        EXPECT_TRUE(TellApart(paths, ttls));
        EXPECT_FALSE(TellApart(paths, std::span(ttls).first(ttls.size() - 1)));
      }
    }
  }
  EXPECT_GT(compared, 100);
}

// The uplink of a NIC is the first hop, at which TTL 1 ends; the last hop ends at the other NIC.
TEST(PathAnswers, NameTheUplinkTheSpineAndTheLeafThatDelivers) {
  const fabric::Topology topology = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 4, .hosts_per_leaf = 1, .uplinks = 2}));
  fabric::PathTable table(topology);
  const auto paths = table.Between(*topology.FindNode("h0"), *topology.FindNode("h1"));
  ASSERT_EQ(paths.size(), 8U);
  EXPECT_EQ(HopsThatAnswer(topology, paths).first_ttl, 1);
  EXPECT_EQ(HopsThatAnswer(topology, paths).count, 3U);
  EXPECT_THAT(FewestTtls(topology, paths), ElementsAre(1, 2, 3));
  for (std::size_t path = 0; path < paths.size(); ++path) {
    std::vector<wire::ProbeAnswer> answers;
    for (std::uint8_t ttl = 1; ttl <= 3; ++ttl) {
      const fabric::DirectedLink hop = paths[path].hops[ttl - 1U];
      const fabric::Link& link = topology.link(hop.link);
      answers.push_back({50'000, ttl, hop.forward ? link.b_address : link.a_address, 10});
    }
    EXPECT_EQ(PathOfAnswers(topology, paths, answers),
              fabric::PathIndex(static_cast<std::int32_t>(path)));
    answers.pop_back();
    EXPECT_FALSE(PathOfAnswers(topology, paths, answers)) << "two leaves can deliver";
    const IpAddress own = topology.node(*topology.FindNode("h1")).addresses.front();
    answers.push_back({50'000, 4, own, 10});
    EXPECT_FALSE(PathOfAnswers(topology, paths, answers)) << "the host answers for no hop";
  }
}

TEST(PathAnswers, OneProbeIsEnoughWhereEachCoreBelongsToOnePath) {
  const fabric::Topology topology = *fabric::Topology::Build(*fabric::BuildFatTree({.k = 8}));
  fabric::PathTable table(topology);
  const auto paths = table.Between(*topology.FindNode("leaf0"), *topology.FindNode("leaf31"));
  ASSERT_EQ(paths.size(), 16U);
  EXPECT_THAT(DistinguishingTtls(topology, paths), ElementsAre(2, 3));
  EXPECT_THAT(FewestTtls(topology, paths), ElementsAre(3));
  const fabric::Link& link = topology.link(paths[5].hops[1].link);
  const IpAddress core = paths[5].hops[1].forward ? link.b_address : link.a_address;
  EXPECT_EQ(PathOfAnswers(topology, paths, std::vector<wire::ProbeAnswer>{{50'000, 3, core, 10}}),
            PathIndex(5));
  // The aggregation switch alone leaves four paths, and nobody else may answer.
  const fabric::Link& up = topology.link(paths[5].hops[0].link);
  const IpAddress agg = paths[5].hops[0].forward ? up.b_address : up.a_address;
  const auto path_of = [&](std::vector<wire::ProbeAnswer> answers) {
    return PathOfAnswers(topology, paths, answers);
  };
  EXPECT_EQ(path_of({{50'000, 2, agg, 10}}), std::nullopt);
  EXPECT_EQ(path_of({{50'000, 2, agg, 10}, {50'000, 3, core, 10}}), PathIndex(5));
  EXPECT_EQ(path_of({{50'000, 3, agg, 10}}), std::nullopt);
  EXPECT_EQ(path_of({{50'000, 3, core, 10}, {50'000, 2, *IpAddress::Parse("9.9.9.9"), 10}}),
            std::nullopt);
}

}  // namespace
}  // namespace espalier::controller
