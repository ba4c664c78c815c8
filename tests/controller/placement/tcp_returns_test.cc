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

#include "common/fabric/path_predictor.h"
#include "controller/placement/port_binder.h"
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
  static_assert(16 * kRounds > 2 * PortBinder::kReturnsAtOnce);
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
  EXPECT_GE(Returns().count("spine1"), 10U);
  cluster_.Advance(std::chrono::seconds(10));
  EXPECT_EQ(ports(), settled);
}

}  // namespace
}  // namespace espalier::controller
