// The acknowledgements of TCP leave from the server's fixed port. The source port decides which
// path they take, too, so it must suit in both directions.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/fabric/ecmp/path_predictor.h"
#include "controller/placement/ports/port_binder.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

constexpr std::uint16_t kServerPort = 5'201;

class TcpReturns : public testing::Test {
 protected:
  // Flows of each host of leaf0 to each one of leaf1.
  void Open(int rounds = 1) {
    for (int host = 0; host < 8; ++host) cluster_.host(host).features.emplace_back("standby");
    cluster_.ConnectAll();
    for (int from = 0; from < 4; ++from) {
      std::vector<Cluster::NewFlow> flows;
      for (int i = 0; i < 4 * rounds; ++i) {
        flows.push_back({.id = static_cast<std::uint64_t>(i + 1), .to = 4 + i % 4});
      }
      wire::FlowReport report = Cluster::Opening(cluster_, from, flows);
      for (wire::OpenedFlow& opened : report.opened) {
        opened.protocol = wire::kProtocolTcp;
        opened.destination_port = kServerPort;
      }
      cluster_.Report(from, report);
    }
    cluster_.Settle();
    cluster_.Advance(std::chrono::seconds(2));
  }
  // The spine that the acknowledgements take, by a predictor of our own.
  std::string SpineOfReturn(const Flow& flow, std::uint16_t port) {
    const State& state = cluster_.state();
    fabric::PathTable paths(state.topology);
    auto predictor = *fabric::PathPredictor::Build(state.topology, paths);
    const auto path = predictor.Predict({.source = flow.destination_address,
                                         .destination = flow.source_address,
                                         .protocol = wire::kProtocolTcp,
                                         .source_port = kServerPort,
                                         .destination_port = port},
                                        flow.key.destination, flow.key.source);
    if (!path) return "";
    const auto between = paths.Between(flow.destination_leaf, flow.source_leaf);
    return fabric::ViaNames(state.topology, between[path->Index()]);
  }
  ReturnPaths::Fate FateOf(const Flow& flow, std::uint16_t port) {
    return cluster_.controller().returns().FateOf(flow.key, port);
  }
  bool IsBetterPortKnown(const Flow& flow, const Subflow& subflow) {
    return cluster_.controller().returns().IsBetterPortKnown(flow.key, subflow.port_path,
                                                             subflow.port);
  }
  std::multiset<std::string> Returns() {
    std::multiset<std::string> spines;
    for (const FlowSlot slot : cluster_.state().flows.All()) {
      const Flow& flow = cluster_.state().flows.At(slot);
      EXPECT_EQ(flow.status, FlowStatus::kRouted);
      spines.insert(SpineOfReturn(flow, flow.subflows[0].port));
    }
    return spines;
  }

  Cluster cluster_{{.spines = 4, .leaves = 2, .hosts_per_leaf = 4},
                   {},
                   fabric::EcmpSpec{.hash = "crc32", .seed = 7}};
};

TEST_F(TcpReturns, LeaveADeadLinkWithTheData) {
  Open();
  ASSERT_EQ(Returns().size(), 16U);
  const std::multiset<std::string> before = Returns();
  ASSERT_GT(before.count("spine1"), 0U) << "nothing to show";
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail).has_value());
  cluster_.Settle();
  const std::multiset<std::string> after = Returns();
  EXPECT_EQ(after.count("spine1"), 0U);
  EXPECT_EQ(after.count(""), 0U);
  // The data are where they would be without that: nowhere near the dead link.
  for (const FlowSlot slot : cluster_.state().flows.All()) {
    EXPECT_NE(cluster_.state().Via(cluster_.state().flows.At(slot)), "spine1");
  }
  // So do flows that start later.
  cluster_.End(0, 1);
  cluster_.Settle();
  wire::FlowReport report =
      Cluster::Opening(cluster_, 0, {{.id = 77, .to = 5}, {.id = 78, .to = 6}});
  for (wire::OpenedFlow& opened : report.opened) {
    opened.protocol = wire::kProtocolTcp;
    opened.destination_port = kServerPort;
  }
  cluster_.Report(0, report);
  cluster_.Settle();
  EXPECT_EQ(Returns().size(), 17U);
  EXPECT_EQ(Returns().count("spine1"), 0U);
}

TEST_F(TcpReturns, OfManyFlowsTakeSeveralTurns) {
  constexpr int kRounds = 40;
  static_assert(16 * kRounds > 2 * ReturnPathWatch::kReturnsAtOnce);
  Open(kRounds);
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail).has_value());
  cluster_.Settle();
  EXPECT_GT(Returns().count(""), 0U);
  cluster_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(Returns().count(""), 0U);
  EXPECT_EQ(Returns().size(), 16U * kRounds);
}

// A host that goes to its standby because acknowledgements stop gets them over another spine.
TEST_F(TcpReturns, OfStandbysDifferFromThoseInUse) {
  Open();
  int compared = 0;
  for (const FlowSlot slot : cluster_.state().flows.All()) {
    const Flow& flow = cluster_.state().flows.At(slot);
    const Subflow& subflow = flow.subflows[0];
    if (subflow.standby_port == 0) continue;
    ++compared;
    EXPECT_NE(SpineOfReturn(flow, subflow.standby_port), SpineOfReturn(flow, subflow.port));
  }
  EXPECT_GE(compared, 12);
}

// Three of four ports have dead returns, and not all flows find another one. They keep theirs.
TEST_F(TcpReturns, AreKeptWhereNoPortIsBetter) {
  Open();
  for (const char* const link : {"leaf0--spine0", "leaf0--spine2", "leaf0--spine3"}) {
    ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kFail).has_value());
    cluster_.Settle();
  }
  const auto ports = [&] {
    std::vector<std::uint16_t> all;
    for (const FlowSlot slot : cluster_.state().flows.All()) {
      const Flow& flow = cluster_.state().flows.At(slot);
      EXPECT_EQ(cluster_.state().Via(flow), "spine1");
      all.push_back(flow.subflows[0].port);
    }
    return all;
  };
  const std::vector<std::uint16_t> settled = ports();
  EXPECT_EQ(std::ranges::count(settled, 0), 0);
  // Operators are told so.
  int dead = 0;
  for (const FlowSlot slot : cluster_.state().flows.All()) {
    const Flow& flow = cluster_.state().flows.At(slot);
    const Subflow& subflow = flow.subflows[0];
    const bool is_dead = FateOf(flow, subflow.port) == ReturnPaths::Fate::kDead;
    EXPECT_EQ(is_dead, SpineOfReturn(flow, subflow.port).empty());
    EXPECT_FALSE(is_dead && IsBetterPortKnown(flow, subflow));
    dead += is_dead ? 1 : 0;
  }
  EXPECT_GT(dead, 0) << "nothing to show";
  EXPECT_GE(Returns().count("spine1"), 10U);
  cluster_.Advance(std::chrono::seconds(10));
  EXPECT_EQ(ports(), settled);
}

TEST_F(TcpReturns, OverADrainedLinkAreTold) {
  Open();
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kDrain).has_value());
  cluster_.Settle();
  int drained = 0;
  for (const FlowSlot slot : cluster_.state().flows.All()) {
    const Flow& flow = cluster_.state().flows.At(slot);
    const Subflow& subflow = flow.subflows[0];
    const bool is_drained = SpineOfReturn(flow, subflow.port) == "spine1";
    EXPECT_EQ(FateOf(flow, subflow.port),
              is_drained ? ReturnPaths::Fate::kDrained : ReturnPaths::Fate::kAlive);
    // A free port of the path with another return.
    bool is_one_known = false;
    for (const fabric::PortEntry& entry : cluster_.state().path_map.Ports(flow.key)) {
      is_one_known |= entry.path == subflow.port_path &&
                      !cluster_.state().flow_paths.ports().IsTaken(flow.key, entry.port) &&
                      SpineOfReturn(flow, entry.port) != "spine1";
    }
    EXPECT_EQ(IsBetterPortKnown(flow, subflow), is_drained && is_one_known);
    drained += is_drained ? 1 : 0;
  }
  EXPECT_GT(drained, 0) << "nothing to show";
}

// A fabric that names no hashes, but hashes TCP as it hashes probes: the other ends probe what
// comes back.
class ProbedTcpReturns : public testing::Test {
 protected:
  void SetUp() override {
    for (int host = 0; host < cluster_.hosts(); ++host) {
      cluster_.host(host).features.emplace_back("standby");
    }
    cluster_.ConnectAll();
    for (int from = 0; from < kHosts; ++from) {
      std::vector<Cluster::NewFlow> flows;
      for (int i = 0; i < kHosts; ++i) {
        flows.push_back({.id = static_cast<std::uint64_t>(i + 1), .to = kHosts + i});
      }
      wire::FlowReport report = Cluster::Opening(cluster_, from, flows);
      for (wire::OpenedFlow& opened : report.opened) opened.protocol = wire::kProtocolTcp;
      cluster_.Report(from, report);
    }
    Rest(std::chrono::seconds(5));
  }
  void Rest(Duration time) {
    cluster_.Settle();
    cluster_.Advance(time);
  }
  // Calls visit(subflow, spine of its path, function that tells the return spine of a port).
  template <typename Visit>
  void ForEach(Visit visit) {
    for (int from = 0; from < kHosts; ++from) {
      for (int i = 0; i < kHosts; ++i) {
        const Flow& flow = cluster_.FlowOf(from, static_cast<std::uint64_t>(i) + 1);
        ASSERT_EQ(flow.status, FlowStatus::kRouted);
        ASSERT_EQ(flow.key.protocol, wire::kProtocolUdp);
        visit(flow.subflows[0], cluster_.SpineOf(from, kHosts + i, flow.subflows[0].port),
              [&, from, i](std::uint16_t port) {
                return cluster_.SpineBack(kHosts + i, from, port);
              });
      }
    }
  }
  std::multiset<int> Returns() {
    std::multiset<int> spines;
    ForEach(
        [&](const Subflow& subflow, int, const auto& back) { spines.insert(back(subflow.port)); });
    return spines;
  }

  static constexpr int kHosts = 4;  // of a leaf
  Cluster cluster_{{.spines = 4, .leaves = 2, .hosts_per_leaf = kHosts},
                   {.fabric_hashes_protocol = false}};
};

TEST_F(ProbedTcpReturns, LeaveADeadLinkWithTheData) {
  const std::multiset<int> before = Returns();
  ASSERT_EQ(before.size(), 16U);
  ASSERT_GT(before.count(1), 1U) << "nothing to show";
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail).has_value());
  cluster_.Settle();
  const std::multiset<int> after = Returns();
  EXPECT_EQ(after.size(), 16U);
  EXPECT_EQ(after.count(1), 0U);
  ForEach([&](const Subflow&, int spine, const auto&) { EXPECT_NE(spine, 1); });
}

// Another connection between two hosts may have the same source port.
TEST_F(ProbedTcpReturns, OfAnotherListenerAreProbedToo) {
  wire::FlowReport report = Cluster::Opening(cluster_, 0, {{.id = 9, .to = kHosts}});
  report.opened[0].protocol = wire::kProtocolTcp;
  report.opened[0].destination_port = kServerPort;
  cluster_.Report(0, report);
  Rest(std::chrono::seconds(5));
  const Flow& flow = cluster_.FlowOf(0, 9);
  const ReturnPaths& returns = cluster_.controller().returns();
  for (const std::uint16_t port : {flow.subflows[0].port, flow.subflows[0].standby_port}) {
    EXPECT_EQ(returns.PathOf(flow.key, port),
              fabric::PathIndex(cluster_.SpineBack(kHosts, 0, port)));
  }
}

// The host may have lost its data or its acknowledgements when it goes to the standby.
TEST_F(ProbedTcpReturns, OfStandbysShareNoSpineWithThePortInUse) {
  int compared = 0;
  ForEach([&](const Subflow& subflow, int spine, const auto& back) {
    if (subflow.standby_port == 0) return;
    ++compared;
    EXPECT_NE(back(subflow.standby_port), back(subflow.port));
    EXPECT_NE(back(subflow.standby_port), spine);
    EXPECT_NE(subflow.standby_path, back(subflow.port)) << "paths are numbered as spines here";
  });
  EXPECT_GE(compared, 12);
}

// What the other ends did not say before is asked again when a link has failed.
TEST_F(ProbedTcpReturns, ThatWereUnknownAreAskedForWhenALinkFails) {
  const auto answer = [&](bool answers) {
    for (int host = kHosts; host < 2 * kHosts; ++host) {
      cluster_.host(host).answers_probes = answers;
    }
  };
  answer(false);
  for (int from = 0; from < kHosts; ++from) {
    wire::FlowReport report = Cluster::Opening(cluster_, from, {{.id = 9, .to = 2 * kHosts - 1}});
    for (wire::OpenedFlow& opened : report.opened) {
      opened.protocol = wire::kProtocolTcp;
      opened.destination_port = kServerPort;  // for which nothing is known
    }
    cluster_.Report(from, report);
  }
  Rest(std::chrono::seconds(5));
  const auto dead_returns = [&] {
    int dead = 0;
    for (int from = 0; from < kHosts; ++from) {
      const std::uint16_t port = cluster_.FlowOf(from, 9).subflows[0].port;
      dead += port != 0 && cluster_.SpineBack(2 * kHosts - 1, from, port) == 1 ? 1 : 0;
    }
    return dead;
  };
  ASSERT_GT(dead_returns(), 0) << "nothing to show";
  answer(true);
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail).has_value());
  Rest(std::chrono::seconds(5));
  EXPECT_EQ(dead_returns(), 0);
}

// The same with switches whose hash is linear, which nobody has told.
class LinearTcpReturns : public ProbedTcpReturns {
 protected:
  LinearTcpReturns() {
    cluster_.hash_back = [](int from, int to, std::uint16_t port) {
      return (from * 5 ^ to * 3 ^ port ^ port >> 3 ^ port >> 7) & 3;
    };
  }
};

TEST_F(LinearTcpReturns, ArePredictedFromThoseThatWereProbed) {
  const int before = cluster_.host(kHosts).probes;
  wire::FlowReport report = Cluster::Opening(cluster_, 0, {{.id = 9, .to = kHosts}});
  report.opened[0].protocol = wire::kProtocolTcp;
  report.opened[0].destination_port = kServerPort;  // for which nothing is known
  cluster_.Report(0, report);
  Rest(std::chrono::seconds(5));
  // Only ports that the path and its standby have or had are probed, and no spare ones (four).
  const Flow& flow = cluster_.FlowOf(0, 9);
  EXPECT_NE(flow.subflows[0].standby_port, 0);
  EXPECT_LE(cluster_.host(kHosts).probes - before, 3);
  for (std::uint16_t port = fabric::kFirstRocePort; port < 0xFF00; port += 97) {
    const auto back = cluster_.controller().returns().PathOf(flow.key, port);
    EXPECT_EQ(back, fabric::PathIndex(cluster_.SpineBack(kHosts, 0, port))) << port;
  }
}

TEST_F(LinearTcpReturns, LeaveADeadLinkWithTheData) {
  ASSERT_GT(Returns().count(1), 1U) << "nothing to show";
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail).has_value());
  cluster_.Settle();
  EXPECT_EQ(Returns().size(), 16U);
  EXPECT_EQ(Returns().count(1), 0U);
}

}  // namespace
}  // namespace espalier::controller
