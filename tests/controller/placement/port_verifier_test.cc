// Verification of ports in use.
#include "controller/placement/port_verifier.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kMismatches = "espalier_controller_path_map_mismatches_total";

TEST(PortVerifierTest, DetectsAPortThatTakesAnotherPath) {
  Cluster cluster(kFourLeaves, {.verify_interval = 100ms});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Settle();
  ASSERT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
  const auto before = cluster.hash;
  cluster.hash = [before](int from, int to, std::uint16_t port) {
    return (before(from, to, port) + 1) % 4;
  };
  cluster.Advance(3s);
  EXPECT_GE(cluster.CounterValue(kMismatches), 1);
  EXPECT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
}

// An edge's port is verified when its turn comes. A job whose port takes another path gets new
// ports.
TEST(PortVerifierTest, DetectsAnEdgePortThatTakesAnotherPath) {
  ControllerOptions options{.verify_interval = 100ms};
  options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP
  Cluster cluster(kFourLeaves, options);
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.StartJob({.name = "train", .ranks = {"h0", "h4"}}).has_value());
  cluster.Settle();
  const auto count = [&] {
    const auto events = cluster.state().history.Since(0, 1'000);
    return std::ranges::count(events, "job_port_remapped", &HistoryEvent::kind);
  };
  ASSERT_EQ(count(), 0);
  const auto before = cluster.hash;
  cluster.hash = [before](int from, int to, std::uint16_t port) {
    return (before(from, to, port) + 1) % 4;
  };
  cluster.Advance(10s);
  EXPECT_GE(cluster.CounterValue(kMismatches), 1);
  EXPECT_GE(count(), 1);
}

// An edge's port is verified again after links have changed.
TEST(PortVerifierTest, VerifiesThePortsOfEdgesAfterALinkChange) {
  ControllerOptions options{.verify_interval = {}};
  options.fabric_hashes_protocol = false;
  Cluster cluster(kFourLeaves, options);
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine3", IntentAction::kFail).has_value());
  ASSERT_TRUE(cluster.StartJob({.name = "train", .ranks = {"h0", "h4"}}).has_value());
  cluster.Advance(1s);
  const auto version = cluster.controller().jobs().all().at("train").active->version;
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine3", IntentAction::kRestore).has_value());
  cluster.Advance(1s);
  ASSERT_EQ(cluster.controller().jobs().all().at("train").active->version, version);
  ASSERT_FALSE(cluster.state().edges.all().empty());
  for (const auto& [name, edge] : cluster.state().edges.all()) {
    const auto known = cluster.state().path_map.Find(edge.key, edge.source_port);
    ASSERT_TRUE(known.has_value());
    EXPECT_EQ(known->trust, fabric::PortTrust::kVerified);
  }
}

}  // namespace
}  // namespace espalier::controller
