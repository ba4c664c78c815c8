#include "common/fabric/ecmp/path_predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "common/fabric/builders.h"
#include "common/fabric/ecmp/path_map.h"
#include "tests/common/fabric/hash_names.h"
#include "tests/common/fabric/random_fabric.h"

namespace espalier::fabric {
namespace {

// The oracle: switches that forward hop by hop. Each knows only its distance to the destination,
// its own links and its hash. (For fabrics in which no shortest path has a valley.)
class Forwarding {
 public:
  explicit Forwarding(const Topology& topology) : topology_(topology) {
    for (const Node& node : topology.nodes()) {
      hashes_.push_back(node.ecmp ? *MakeEcmpHash(*node.ecmp) : nullptr);
    }
  }

  std::optional<std::vector<DirectedLink>> Send(const FlowTuple& tuple, NodeId from, NodeId to) {
    const std::map<NodeId, int>& distance = Distances(to);
    std::vector<DirectedLink> hops;
    for (NodeId at = from; at != to;) {
      std::vector<DirectedLink> members;
      for (const DirectedLink hop : topology_.Outgoing(at)) {
        const auto next = distance.find(topology_.To(hop));
        if (next == distance.end() || next->second != distance.at(at) - 1) continue;
        if (topology_.link(hop.link).state != LinkState::kDown) members.push_back(hop);
      }
      if (members.empty()) return std::nullopt;
      hops.push_back(members[hashes_[at.Index()]->Choose(tuple, members.size())]);
      at = topology_.To(hops.back());
    }
    return hops;
  }

  // The number of shortest paths, valleys included.
  std::size_t CountSubflows(NodeId from, NodeId to) {
    return CountSubflows(from, to, Distances(to));
  }

 private:
  std::size_t CountSubflows(NodeId at, NodeId to, const std::map<NodeId, int>& distance) const {
    if (at == to) return 1;
    std::size_t ways = 0;
    for (const DirectedLink hop : topology_.Outgoing(at)) {
      const auto next = distance.find(topology_.To(hop));
      if (next == distance.end() || next->second != distance.at(at) - 1) continue;
      ways += CountSubflows(next->first, to, distance);
    }
    return ways;
  }

  const std::map<NodeId, int>& Distances(NodeId to) {
    std::map<NodeId, int>& distance = distances_[to];
    if (!distance.empty()) return distance;
    distance[to] = 0;
    std::deque<NodeId> queue{to};
    while (!queue.empty()) {
      const NodeId at = queue.front();
      queue.pop_front();
      for (const DirectedLink hop : topology_.Outgoing(at)) {
        const NodeId next = topology_.To(hop);
        if (topology_.node(next).kind != NodeKind::kSwitch) continue;
        if (distance.emplace(next, distance.at(at) + 1).second) queue.push_back(next);
      }
    }
    return distance;
  }

  const Topology& topology_;
  std::vector<std::unique_ptr<EcmpHash>> hashes_;
  std::map<NodeId, std::map<NodeId, int>> distances_;  // to a destination
};

TopologySpec WithHashes(TopologySpec spec, std::string_view hash) {
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    if (spec.nodes[i].kind == NodeKind::kSwitch) {
      spec.nodes[i].ecmp = EcmpSpec{std::string(hash), i + 1};
    }
  }
  return spec;
}

FlowTuple TupleBetween(const Topology& topology, NodeId source, NodeId destination) {
  FlowTuple tuple;
  tuple.source = topology.node(source).addresses.front();
  tuple.destination = topology.node(destination).addresses.front();
  return tuple;
}

// Predicts every RoCEv2 port of a pair; returns how many predictions differ from the forwarding.
void ExpectExactMap(const Topology& topology, const char* from, const char* to) {
  PathTable paths(topology);
  auto predictor = PathPredictor::Build(topology, paths);
  ASSERT_TRUE(predictor.has_value());
  Forwarding forwarding(topology);
  const NodeId source = *topology.FindNode(from);
  const NodeId destination = *topology.FindNode(to);
  const NodeId source_leaf = paths.FindAttachment(source)->leaf;
  const NodeId destination_leaf = paths.FindAttachment(destination)->leaf;
  FlowTuple tuple = TupleBetween(topology, source, destination);
  std::set<std::int32_t> used;
  std::size_t mismatches = 0;
  for (std::size_t i = 0; i < kRocePortCount; ++i) {
    tuple.source_port = static_cast<std::uint16_t>(kFirstRocePort + i);
    const auto path = predictor->Predict(tuple, source, destination);
    ASSERT_TRUE(path.has_value());
    const auto hops = forwarding.Send(tuple, source_leaf, destination_leaf);
    const auto& predicted = paths.Between(source_leaf, destination_leaf)[path->Index()];
    mismatches += hops && std::ranges::equal(predicted.hops, *hops) ? 0U : 1U;
    used.insert(path->value());
  }
  EXPECT_EQ(mismatches, 0U);
  EXPECT_GT(used.size(), 1U);
}

TEST(PathPredictor, IsExactOverAllPortsForEveryModel) {
  for (const std::string& hash : HashNames()) {
    if (hash.starts_with("xor") && hash.size() == 4 && hash != "xor8") continue;  // small seeds
    SCOPED_TRACE(hash);
    const Topology topology = *Topology::Build(WithHashes(*BuildLeafSpine({.spines = 8}), hash));
    ExpectExactMap(topology, "h1", "h14");
  }
}

TEST(PathPredictor, IsExactThroughThreeTiers) {
  for (const char* hash : {"linux", "crc32", "jenkins"}) {
    SCOPED_TRACE(hash);
    ExpectExactMap(*Topology::Build(WithHashes(*BuildFatTree({.k = 4}), hash)), "h0", "h15");
  }
}

TEST(PathPredictor, IsExactWhereGroupsAreNoPowersOfTwo) {
  for (const std::string_view hash : {"linux", "crc32", "toeplitz"}) {
    SCOPED_TRACE(hash);
    const Topology topology = *Topology::Build(WithHashes(*BuildLeafSpine({.spines = 6}), hash));
    ExpectExactMap(topology, "h1", "h14");
  }
}

// What it keeps from one call to the next must not be used for other switches, links or fields.
TEST(PathPredictor, IsExactWhateverWasAskedBefore) {
  Topology topology = *Topology::Build(WithHashes(*BuildFatTree({.k = 4}), "crc16-ccitt"));
  PathTable paths(topology);
  auto predictor = PathPredictor::Build(topology, paths);
  ASSERT_TRUE(predictor.has_value());
  const NodeId source = *topology.FindNode("h0");
  std::mt19937 random(7);
  const auto check = [&](const FlowTuple& tuple, NodeId destination) {
    const NodeId from = paths.FindAttachment(source)->leaf;
    const NodeId to = paths.FindAttachment(destination)->leaf;
    const auto hops = Forwarding(topology).Send(tuple, from, to);
    const auto path = predictor->Predict(tuple, source, destination);
    ASSERT_TRUE(path && hops);
    EXPECT_TRUE(std::ranges::equal(paths.Between(from, to)[path->Index()].hops, *hops));
  };
  for (int i = 0; i < 600; ++i) {
    const NodeId destination = *topology.FindNode(random() % 2 == 0 ? "h15" : "h6");
    FlowTuple tuple = TupleBetween(topology, source, destination);
    tuple.source_port = static_cast<std::uint16_t>(0xC000 + random() % kRocePortCount);
    tuple.destination_qpn =
        random() % 2 == 0 ? 0 : static_cast<std::uint32_t>(1 + random() % 1'000);
    if (random() % 2 == 0) {
      tuple.source = *IpAddress::Parse("fd00::1");
      tuple.destination = *IpAddress::Parse("fd00::2");
    }
    if (i % 100 == 99) {
      const LinkId link = *topology.FindLink(i % 200 == 99 ? "leaf0--agg1" : "agg0--core1");
      const bool is_up = topology.link(link).state == LinkState::kUp;
      topology.SetLinkState(link, is_up ? LinkState::kDown : LinkState::kUp);
    }
    check(tuple, destination);
  }
}

TEST(PathPredictor, IsExactWithALinkOfTheSwitchDown) {
  Topology topology = *Topology::Build(WithHashes(*BuildLeafSpine({.spines = 8}), "linux"));
  topology.SetLinkState(*topology.FindLink("leaf0--spine3"), LinkState::kDown);
  // Neither of these changes the next hops of leaf0.
  topology.SetLinkState(*topology.FindLink("leaf0--spine4"), LinkState::kDrained);
  ExpectExactMap(topology, "h1", "h14");
}

TEST(PathPredictor, AgreesWithForwardingOnRandomFabrics) {
  int compared = 0;
  for (unsigned seed = 1; seed <= 80; ++seed) {
    const Topology topology =
        MakeRandomFabric(seed, {.level_links = seed % 2 == 0, .hash = "jenkins"});
    PathTable paths(topology);
    auto predictor = PathPredictor::Build(topology, paths);
    ASSERT_TRUE(predictor.has_value());
    Forwarding forwarding(topology);
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      for (std::size_t j = 0; j < topology.nodes().size(); ++j) {
        const NodeId source(static_cast<std::int32_t>(i));
        const NodeId destination(static_cast<std::int32_t>(j));
        const auto from = paths.FindAttachment(source);
        const auto to = paths.FindAttachment(destination);
        if (!from || !to || i == j) continue;
        const auto between = paths.Between(from->leaf, to->leaf);
        // Switches that forward by distance alone would also use valleys of the same length.
        if (between.empty() || forwarding.CountSubflows(from->leaf, to->leaf) != between.size()) {
          continue;
        }
        FlowTuple tuple = TupleBetween(topology, source, destination);
        for (std::uint16_t port = 0xC000; port < 0xC020; ++port) {
          tuple.source_port = port;
          const auto path = predictor->Predict(tuple, source, destination);
          ASSERT_TRUE(path.has_value());
          const auto hops = forwarding.Send(tuple, from->leaf, to->leaf);
          EXPECT_TRUE(hops && std::ranges::equal(between[path->Index()].hops, *hops));
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 10'000);
}

TEST(PathPredictor, KnowsNothingWhereASwitchThatChoosesHasNoModel) {
  TopologySpec spec = WithHashes(*BuildLeafSpine({}), "linux");
  for (Node& node : spec.nodes) {
    if (node.id == "leaf0") node.ecmp.reset();
    if (node.role == SwitchRole::kSpine) node.ecmp.reset();  // has no choice to make
  }
  const Topology topology = *Topology::Build(spec);
  PathTable paths(topology);
  auto predictor = PathPredictor::Build(topology, paths);
  const NodeId h0 = *topology.FindNode("h0");
  const NodeId h15 = *topology.FindNode("h15");
  EXPECT_FALSE(predictor->Predict(TupleBetween(topology, h0, h15), h0, h15).has_value());
  EXPECT_TRUE(predictor->Predict(TupleBetween(topology, h15, h0), h15, h0).has_value());
}

TEST(PathPredictor, TakesTheEmptyPathWithinALeaf) {
  const Topology topology = *Topology::Build(*BuildLeafSpine({}));
  PathTable paths(topology);
  auto predictor = PathPredictor::Build(topology, paths);
  const NodeId h0 = *topology.FindNode("h0");
  const NodeId h1 = *topology.FindNode("h1");
  EXPECT_EQ(predictor->Predict(TupleBetween(topology, h0, h1), h0, h1), PathIndex(0));
}

TEST(PathPredictor, KnowsNoPathWhereAllLinksAreDown) {
  Topology topology = *Topology::Build(WithHashes(*BuildLeafSpine({.spines = 2}), "crc32"));
  for (const char* link : {"leaf0--spine0", "leaf0--spine1"}) {
    topology.SetLinkState(*topology.FindLink(link), LinkState::kDown);
  }
  PathTable paths(topology);
  auto predictor = PathPredictor::Build(topology, paths);
  const NodeId h0 = *topology.FindNode("h0");
  const NodeId h15 = *topology.FindNode("h15");
  EXPECT_FALSE(predictor->Predict(TupleBetween(topology, h0, h15), h0, h15).has_value());
}

TEST(PathPredictor, RefusesAModelThatIsNotInTheCatalogue) {
  const Topology topology = *Topology::Build(WithHashes(*BuildLeafSpine({}), "md5"));
  PathTable paths(topology);
  const auto predictor = PathPredictor::Build(topology, paths);
  ASSERT_FALSE(predictor.has_value());
  EXPECT_EQ(predictor.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(predictor.error().message.starts_with("switch leaf0: "));
}

}  // namespace
}  // namespace espalier::fabric
