#include "controller/paths/path_learner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "common/fabric/builders.h"
#include "controller/paths/models/path_reach.h"

namespace espalier::controller {
namespace {

using fabric::PathIndex;
using fabric::PortKey;
using fabric::PortTrust;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

fabric::Topology MakeTopology() {
  fabric::TopologySpec spec =
      *fabric::BuildLeafSpine({.spines = 4, .leaves = 2, .hosts_per_leaf = 1});
  for (fabric::Node& node : spec.nodes) {
    if (node.role == fabric::SwitchRole::kLeaf) {
      node.ecmp = fabric::EcmpSpec{.hash = "crc32", .seed = 7};
    }
  }
  return *fabric::Topology::Build(spec);
}

// One pair of hosts under two leaves whose hash the topology file names, and its learner. The test
// decides what probes see.
class Learning : public testing::Test {
 protected:
  // The predicted port of a path in the map.
  std::uint16_t PredictedPort(PathIndex path) {
    EXPECT_TRUE(learner_.RequestPort(key_, path));
    for (const fabric::PortEntry& entry : map_.Ports(key_)) {
      if (entry.path == path && entry.trust == PortTrust::kPredicted) return entry.port;
    }
    ADD_FAILURE() << "no port was predicted";
    return 0;
  }
  std::optional<PathIndex> Model(std::uint16_t port) {
    return models_.ModelOf(key_)->Predict(port);
  }
  // Sends all orders and answers them, until there are none.
  void Run() {
    for (int rounds = 0; rounds < 100; ++rounds) {
      now_ += 10s;
      const auto orders = learner_.TakeOrders(now_, [](fabric::NodeId) { return true; });
      if (orders.empty()) return;
      for (const PathLearner::Order& order : orders) Answer(order.order);
    }
    FAIL() << "orders do not end";
  }
  void Answer(const wire::ProbeOrder& order) {
    ++orders_;
    wire::ProbeReport report{.order = order.order, .done = true};
    const auto paths = paths_.Between(leaf_, other_leaf_);
    for (const std::uint16_t port : order.source_ports) {
      for (const std::uint8_t ttl : order.ttls) {
        ++report.sent;
        const auto path = truth_(port);
        if (!path) continue;
        const auto hop = paths[path->Index()].hops[ttl - 2U];
        const fabric::Link& link = topology_.link(hop.link);
        report.answers.push_back({port, ttl, hop.forward ? link.b_address : link.a_address, 100});
      }
    }
    Take(learner_.HandleReport(report, [](fabric::NodeId) { return true; }));
  }
  void Take(const PathLearner::Findings& findings) {
    for (const PathLearner::QuarantinedPort& port : findings.quarantined) {
      EXPECT_EQ(port.key, key_);
      quarantined_.push_back(port.port);
    }
    mismatches_ += findings.mismatches.size();
  }

  fabric::Topology topology_ = MakeTopology();
  fabric::PathTable paths_{topology_};
  fabric::PathMap map_;
  fabric::PathMap other_map_;
  PortModels models_{topology_, paths_, other_map_};
  Metrics metrics_;
  PathLearner learner_{topology_, paths_, map_, {}, metrics_};
  const fabric::NodeId leaf_ = *topology_.FindNode("leaf0");
  const fabric::NodeId other_leaf_ = *topology_.FindNode("leaf1");
  const PortKey key_{.source = *topology_.FindNode("h0"), .destination = *topology_.FindNode("h1")};
  TimePoint now_{};
  // The path on which probes of a port are seen; none: they are not answered.
  std::function<std::optional<PathIndex>(std::uint16_t)> truth_ = [this](std::uint16_t port) {
    return Model(port);
  };
  int orders_ = 0;
  std::vector<std::uint16_t> quarantined_;
  std::size_t mismatches_ = 0;
};

constexpr PathIndex kPath(2);

TEST_F(Learning, QuarantinesAPredictedPortThatAloneStaysSilent) {
  const std::uint16_t port = PredictedPort(kPath);
  truth_ = [&](std::uint16_t asked) { return asked == port ? std::nullopt : Model(asked); };
  learner_.Verify(key_, port);
  Run();
  EXPECT_THAT(quarantined_, ElementsAre(port));
  EXPECT_EQ(orders_, 3) << "once alone, and twice with control probes";
  EXPECT_TRUE(learner_.IsQuarantined(key_, port));
  EXPECT_EQ(map_.Find(key_, port), std::nullopt);
  const auto is_seen = [](const auto& entry) {
    return entry.path == kPath && entry.trust == PortTrust::kVerified;
  };
  EXPECT_TRUE(std::ranges::any_of(map_.Ports(key_), is_seen)) << "an answered port is available";
  // It is not predicted again.
  for (int i = 0; i < 40; ++i) {
    const auto ports = map_.Ports(key_);
    for (const fabric::PortEntry& entry : ports) map_.DropPrediction(key_, entry.port);
    learner_.RequestPort(key_, kPath);
  }
  EXPECT_EQ(map_.Find(key_, port), std::nullopt);
}

TEST_F(Learning, ProbesAgainAndKeepsAPortThatIsThenAnswered) {
  const std::uint16_t port = PredictedPort(kPath);
  truth_ = [&](std::uint16_t asked) {
    return asked == port && orders_ <= 2 ? std::nullopt : Model(asked);
  };
  learner_.Verify(key_, port);
  Run();
  EXPECT_THAT(quarantined_, IsEmpty());
  EXPECT_EQ(map_.Find(key_, port)->trust, PortTrust::kVerified);
  // It is verified.
  truth_ = [&](std::uint16_t asked) { return asked == port ? std::nullopt : Model(asked); };
  for (int i = 0; i < 10; ++i) learner_.Verify(key_, port), Run();
  EXPECT_THAT(quarantined_, IsEmpty());
}

TEST_F(Learning, SilenceOfAllIsUnknown) {
  const std::uint16_t port = PredictedPort(kPath);
  truth_ = [](std::uint16_t) { return std::nullopt; };
  for (int i = 0; i < 4; ++i) learner_.Verify(key_, port), Run();
  EXPECT_EQ(orders_, 16) << "four each time";
  for (int i = 0; i < 10; ++i) learner_.Verify(key_, port), Run();
  EXPECT_EQ(orders_, 16 + 10) << "one per request from a source that never answers";
  EXPECT_THAT(quarantined_, IsEmpty());
  EXPECT_EQ(map_.Find(key_, port)->trust, PortTrust::kPredicted);
}

TEST_F(Learning, SilenceOfAWholePathIsUnknownAlthoughOthersAnswer) {
  const std::uint16_t port = PredictedPort(kPath);
  truth_ = [&](std::uint16_t asked) {
    const auto path = Model(asked);
    return path == kPath ? std::nullopt : path;
  };
  for (int i = 0; i < 10; ++i) learner_.Verify(key_, port), Run();
  EXPECT_THAT(quarantined_, IsEmpty());
  EXPECT_EQ(map_.Find(key_, port)->trust, PortTrust::kPredicted);
}

TEST_F(Learning, NeverQuarantinesAPortVerifiedInAnEarlierFabric) {
  const std::uint16_t port = PredictedPort(kPath);
  learner_.Verify(key_, port);
  Run();
  ASSERT_EQ(map_.Find(key_, port)->trust, PortTrust::kVerified);
  const fabric::LinkId link = *topology_.FindLink("leaf1--spine0");
  learner_.HandleLinkChange(std::span(&link, 1));
  ASSERT_EQ(map_.Find(key_, port)->trust, PortTrust::kReverify);
  truth_ = [&](std::uint16_t asked) { return asked == port ? std::nullopt : Model(asked); };
  for (int i = 0; i < 10; ++i) learner_.Verify(key_, port), Run();
  EXPECT_THAT(quarantined_, IsEmpty());
  EXPECT_TRUE(map_.Find(key_, port).has_value());
}

TEST_F(Learning, APredictionForAnEarlierFabricStaysAPrediction) {
  const std::uint16_t port = PredictedPort(kPath);
  const fabric::LinkId link = *topology_.FindLink("leaf1--spine0");
  learner_.HandleLinkChange(std::span(&link, 1));
  ASSERT_EQ(map_.Find(key_, port)->trust, PortTrust::kReverify);
  truth_ = [&](std::uint16_t asked) { return asked == port ? std::nullopt : Model(asked); };
  learner_.Verify(key_, port);
  Run();
  EXPECT_THAT(quarantined_, ElementsAre(port));
  learner_.HandleLinkChange(std::span(&link, 1));
  EXPECT_FALSE(learner_.IsQuarantined(key_, port)) << "the fabric has changed again";
}

TEST_F(Learning, QuarantinesASilentPortOfAWrongModel) {
  const std::uint16_t port = PredictedPort(kPath);
  truth_ = [&](std::uint16_t asked) -> std::optional<PathIndex> {
    if (asked == port) return std::nullopt;
    return PathIndex((Model(asked)->value() + 1) % 4);
  };
  learner_.Verify(key_, port);
  Run();
  EXPECT_GE(mismatches_, 1U);
  EXPECT_THAT(quarantined_, ElementsAre(port));
}

TEST_F(Learning, ALostOrderIsNotSilence) {
  const std::uint16_t port = PredictedPort(kPath);
  learner_.Verify(key_, port);
  int lost = 0;
  for (int rounds = 0; rounds < 100; ++rounds) {
    const auto orders = learner_.TakeOrders(now_, [](fabric::NodeId) { return true; });
    if (orders.empty()) break;
    lost += static_cast<int>(orders.size());
    now_ += 1h;
    Take(learner_.ExpireOrders(now_));
  }
  EXPECT_EQ(lost, 4);
  EXPECT_THAT(quarantined_, IsEmpty());
  EXPECT_TRUE(map_.Find(key_, port).has_value());
}

// With CRC hashes the seeds of two tiers make no difference: which aggregation switch a port takes
// decides which of its cores follows.
TEST(PolarisedFabric, IsRecognisedByTheHashesOfTheFileWithoutProbes) {
  fabric::TopologySpec spec = *fabric::BuildFatTree({.k = 8});
  std::uint64_t seed = 1;
  for (fabric::Node& node : spec.nodes) {
    if (node.kind == fabric::NodeKind::kSwitch) node.ecmp = {"crc32", seed++};
  }
  const fabric::Topology topology = *fabric::Topology::Build(spec);
  fabric::PathTable paths(topology);
  fabric::PathMap map;
  Metrics metrics;
  PathLearner learner(topology, paths, map, {}, metrics);
  const PortKey key{.source = *topology.FindNode("h0"), .destination = *topology.FindNode("h127")};
  const auto between = paths.Between(paths.FindAttachment(key.source)->leaf,
                                     paths.FindAttachment(key.destination)->leaf);
  ASSERT_EQ(between.size(), 16U);
  std::set<fabric::NodeId> aggs;  // over which a port leads
  int reachable = 0;
  for (std::int32_t path = 0; path < 16; ++path) {
    if (!learner.RequestPort(key, PathIndex(path))) continue;
    ++reachable;
    aggs.insert(topology.To(between[static_cast<std::size_t>(path)].hops.front()));
  }
  EXPECT_EQ(reachable, 4);
  EXPECT_EQ(aggs.size(), 4U);
  EXPECT_EQ(FindUnreachable(map, key, between).size(), 12U);
  EXPECT_EQ(map.PortCount(), 4U) << "ports of other paths are not kept";
  EXPECT_TRUE(learner.TakeOrders({}, [](fabric::NodeId) { return true; }).empty());
}

// The host of a NIC with several uplinks hashes the protocol, whatever the switches do.
TEST(HashedProtocol, IsThatOfTheFlowWhereItsHostChoosesTheUplink) {
  const auto topology = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 4, .hosts_per_leaf = 2, .uplinks = 2}));
  const auto single = MakeTopology();
  fabric::PathTable paths(topology);
  const fabric::PathTable single_paths(single);
  const fabric::NodeId h0 = *topology.FindNode("h0");
  const auto protocol = [](const fabric::PathTable& table, fabric::NodeId nic, bool is_hashed) {
    return HashedProtocol(table, nic, wire::kProtocolTcp, is_hashed);
  };
  EXPECT_EQ(protocol(paths, h0, false), wire::kProtocolTcp);
  EXPECT_EQ(protocol(single_paths, *single.FindNode("h0"), false), wire::kProtocolUdp);
  EXPECT_EQ(protocol(single_paths, *single.FindNode("h0"), true), wire::kProtocolTcp);
  // Orders say so, unless switches hash the protocol, too: then probes show nothing.
  const PortKey key{.source = h0,
                    .destination = *topology.FindNode("h2"),
                    .protocol = wire::kProtocolTcp,
                    .destination_port = 5000};
  for (const bool is_hashed : {false, true}) {
    Metrics metrics;
    fabric::PathMap map;
    PathLearner learner(topology, paths, map, {.fabric_hashes_protocol = is_hashed}, metrics);
    EXPECT_FALSE(learner.RequestPort(key, PathIndex(0)));
    const auto orders = learner.TakeOrders(TimePoint() + 1s, [](fabric::NodeId) { return true; });
    ASSERT_EQ(orders.size(), is_hashed ? 0U : 1U);
    for (const PathLearner::Order& order : orders) {
      EXPECT_EQ(order.order.flow_protocol, wire::kProtocolTcp);
    }
  }
}

}  // namespace
}  // namespace espalier::controller
