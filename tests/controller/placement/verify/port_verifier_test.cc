// Verification of ports in use.
#include "controller/placement/verify/port_verifier.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kMismatches = "espalier_controller_path_map_mismatches_total";

TEST(PortVerifierTest, DetectsAPortThatTakesAnotherPath) {
  Cluster cluster(kFourLeaves, {.verification = {.interval = 100ms}});
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
  ControllerOptions options{.verification = {.interval = 100ms}};
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
  ControllerOptions options{.verification = {.interval = {}}};
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

std::ptrdiff_t CountEvents(Cluster& cluster, const std::string& kind) {
  return std::ranges::count(cluster.state().history.Since(0, 10'000), kind, &HistoryEvent::kind);
}

// Every flow has a port, and its port takes the path that is planned for it, in the map and in the
// fabric.
bool AreOnPlannedPaths(Cluster& cluster, int flows_of_host, int hosts_of_leaf) {
  for (int from = 0; from < cluster.hosts(); ++from) {
    for (int i = 0; i < flows_of_host; ++i) {
      const int to = (from + (1 + i % 3) * hosts_of_leaf) % cluster.hosts();
      const auto id = static_cast<std::uint64_t>(i) + 1;
      const Flow& flow = cluster.FlowOf(from, id);
      const auto path = cluster.state().flow_paths.PathOf(flow.subflows.front());
      if (flow.status != FlowStatus::kRouted || !path) return false;
      if (cluster.AppliedSpine(from, id, to) != path->value()) return false;
    }
  }
  return true;
}

void OpenMany(Cluster& cluster, int flows_of_host, int hosts_of_leaf) {
  for (int from = 0; from < cluster.hosts(); ++from) {
    std::vector<Cluster::NewFlow> flows;
    for (int i = 0; i < flows_of_host; ++i) {
      flows.push_back({.id = static_cast<std::uint64_t>(i) + 1,
                       .to = (from + (1 + i % 3) * hosts_of_leaf) % cluster.hosts()});
    }
    cluster.Open(from, flows);
    cluster.Settle();
  }
}

// The hashes of two leaves change under traffic: all flows return to their planned paths, and each
// keeps a port all the time.
TEST(PortVerifierTest, LearnsTheFabricAgainAfterARehash) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenMany(cluster, 6, 4);
  cluster.Advance(30s);
  ASSERT_TRUE(AreOnPlannedPaths(cluster, 6, 4));
  ASSERT_EQ(cluster.CounterValue(kMismatches), 0);
  const auto before = cluster.hash;
  cluster.hash = [before](int from, int to, std::uint16_t port) {
    return from < 8 ? (port * 5 + port / 16 + from * 3 + to) % 4 : before(from, to, port);
  };
  ASSERT_FALSE(AreOnPlannedPaths(cluster, 6, 4));
  int seconds = 0;
  while (!AreOnPlannedPaths(cluster, 6, 4) && seconds < 300) {
    for (int part = 0; part < 20; ++part) {
      cluster.Advance(50ms);
      for (int from = 0; from < 16; ++from) ASSERT_EQ(cluster.host(from).ports.size(), 6U);
    }
    ++seconds;
  }
  EXPECT_LE(seconds, 60);
  EXPECT_EQ(CountEvents(cluster, "fabric_rehashed"), 1);
  EXPECT_EQ(cluster.CounterValue("espalier_controller_switches_rehashed_total"), 2);
  cluster.Advance(5min);
  EXPECT_TRUE(AreOnPlannedPaths(cluster, 6, 4));
  EXPECT_EQ(CountEvents(cluster, "fabric_rehashed"), 1);
}

// One switch that changes its hash does not make the controller learn the others again.
TEST(PortVerifierTest, LearnsOneSwitchAgain) {
  Cluster cluster({.spines = 4, .leaves = 6, .hosts_per_leaf = 2});
  cluster.ConnectAll();
  OpenMany(cluster, 6, 2);
  cluster.Advance(30s);
  const auto before = cluster.hash;
  cluster.hash = [before](int from, int to, std::uint16_t port) {
    return from < 2 ? (port * 5 + port / 16 + from * 3 + to) % 4 : before(from, to, port);
  };
  cluster.Advance(2min);
  EXPECT_TRUE(AreOnPlannedPaths(cluster, 6, 2));
  EXPECT_EQ(CountEvents(cluster, "switch_rehashed"), 1);
  EXPECT_EQ(CountEvents(cluster, "fabric_rehashed"), 0);
}

// 16,384 flows are verified within five minutes at the default pace.
double OldestVerification(const Cluster& cluster) {
  const std::string name = "\nespalier_controller_oldest_verification_seconds ";
  const std::string text = cluster.MetricsText();
  return std::stod(text.substr(text.find(name) + name.size()));
}

TEST(PortVerifierTest, VerifiesManyFlowsInTime) {
  Cluster cluster({.spines = 8, .leaves = 8, .hosts_per_leaf = 4},
                  {.heartbeat = {.interval = 10s}});
  cluster.ConnectAll();
  OpenMany(cluster, 128, 4);
  cluster.Advance(20s);
  ASSERT_EQ(cluster.state().flows.size(), 4'096U);
  int probes = 0;
  for (int i = 0; i < 32; ++i) probes -= cluster.host(i).probes;
  double oldest = 0;
  for (int i = 0; i < 60; ++i) {
    cluster.Advance(10s);
    oldest = std::max(oldest, OldestVerification(cluster));
  }
  for (int i = 0; i < 32; ++i) probes += cluster.host(i).probes;
  EXPECT_GT(oldest, 0);
  EXPECT_LE(oldest, SecondsOf(5min));
  EXPECT_LE(probes, 4 * 4'096);
  EXPECT_EQ(cluster.CounterValue(kMismatches), 0);
}

}  // namespace
}  // namespace espalier::controller
