// Hosts that report as much as they may, as programs without rights make them: counts the work that
// this causes, and what others notice of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/fabric/ecmp/ecmp_hash.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRows = 4'096;  // of one report

// Opens flows from one host, evenly to these others.
void OpenMany(Cluster& cluster, int from, const std::vector<int>& to, std::size_t flows,
              std::uint8_t protocol = wire::kProtocolUdp) {
  for (std::size_t sent = 0; sent < flows;) {
    wire::FlowReport report{.jobs = {"flood"}};
    report.addresses.push_back(cluster.Address(from));
    for (const int host : to) report.addresses.push_back(cluster.Address(host));
    for (; sent < flows && report.opened.size() < kRows; ++sent) {
      report.opened.push_back({.id = wire::LocalFlowId(1'000 + sent),
                               .destination = static_cast<std::uint32_t>(1 + sent % to.size()),
                               .protocol = protocol,
                               .path_ports = {}});
    }
    cluster.Report(from, std::move(report));
    cluster.Settle();
  }
}

// What the search for ports has considered.
std::uint64_t Work(Cluster& cluster) {
  return cluster.state().flow_paths.ports().lookups() +
         static_cast<std::uint64_t>(
             cluster.CounterValue("espalier_controller_port_predictions_total"));
}

enum class Spread { kOnePair, kOneLeaf, kAllLeaves };

std::uint64_t WorkOf(Spread spread, std::size_t flows, bool has_model) {
  const std::optional<fabric::EcmpSpec> hash =
      has_model ? std::optional(fabric::EcmpSpec{.hash = "crc32", .seed = 7}) : std::nullopt;
  Cluster cluster({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}, {}, hash);
  const auto leaf = has_model ? *fabric::MakeEcmpHash(*hash) : nullptr;
  if (has_model) {
    cluster.hash = [&](int from, int to, std::uint16_t port) {
      return static_cast<int>(leaf->Choose({.source = cluster.Address(from),
                                            .destination = cluster.Address(to),
                                            .source_port = port},
                                           4));
    };
  }
  cluster.ConnectAll();
  const std::uint64_t before = Work(cluster);
  switch (spread) {
    case Spread::kOnePair:
      OpenMany(cluster, 0, {4}, flows);
      break;
    case Spread::kOneLeaf:
      for (int host = 0; host < 4; ++host) OpenMany(cluster, host, {4, 5, 6, 7}, flows / 4);
      break;
    case Spread::kAllLeaves:
      for (int host = 0; host < 16; ++host) {
        OpenMany(cluster, host, {(host + 4) % 16, (host + 8) % 16}, flows / 16);
      }
      break;
  }
  cluster.Advance(2s);
  return Work(cluster) - before;
}

// At most so many look-ups a flow, wherever flows go and however many there are: what was cubic in
// the flows of a pair is proportional. Without a model, probes make 64 ports known at a time.
TEST(Flood, CostsInProportionToItsFlowsWhereverTheyGo) {
  for (const bool has_model : {true, false}) {
    for (const Spread spread : {Spread::kOnePair, Spread::kOneLeaf, Spread::kAllLeaves}) {
      for (const std::size_t flows : {1'000U, 2'000U, 4'000U}) {
        const std::uint64_t work = WorkOf(spread, flows, has_model);
        EXPECT_LE(work, 2'048 * flows) << static_cast<int>(spread) << has_model;
      }
    }
  }
}

class FloodOfOneHost : public testing::Test {
 protected:
  FloodOfOneHost() { cluster_.ConnectAll(); }

  std::size_t CountOf(int host, FlowStatus status) {
    std::size_t count = 0;
    for (const FlowSlot slot : cluster_.state().flows.OfAgent(AgentId(host))) {
      count += cluster_.state().flows.At(slot).status == status ? 1 : 0;
    }
    return count;
  }
  std::int64_t CountEvents(const std::string& kind) {
    return std::ranges::count(cluster_.state().history.Since(0, 100'000), kind,
                              &HistoryEvent::kind);
  }

  Cluster cluster_{{.spines = 4, .leaves = 4, .hosts_per_leaf = 4}};
};

TEST_F(FloodOfOneHost, BeyondThePortsOfAPairStaysOnEcmpAndIsTold) {
  OpenMany(cluster_, 0, {4}, 6'000);
  cluster_.Open(0, {{.id = 1, .to = 5}});
  cluster_.Advance(5s);
  EXPECT_EQ(CountOf(0, FlowStatus::kUnroutable), 6'000 - Admission::kMostFlowsOfPair);
  EXPECT_EQ(CountOf(0, FlowStatus::kRouted), Admission::kMostFlowsOfPair + 1);
  EXPECT_EQ(cluster_.FlowOf(0, 1).status, FlowStatus::kRouted) << "another pair";
  EXPECT_EQ(CountEvents("pair_full"), 1);
  // A place that becomes free is for the next flow that opens.
  cluster_.End(0, 1'000);
  cluster_.Open(0, {{.id = 2, .to = 4}});
  cluster_.Advance(5s);
  EXPECT_EQ(cluster_.FlowOf(0, 2).status, FlowStatus::kRouted);
  cluster_.state().flow_paths.CheckInvariants();
}

// Each look at the clock costs a fifth of a turn's budget, so a turn does little.
TEST_F(FloodOfOneHost, DoesNotKeepTheFlowsOfOthersWaiting) {
  OpenMany(cluster_, 8, {4, 12}, 2'000);
  cluster_.cost_of_look = 320us;
  for (std::uint64_t part = 0; part < 4; ++part) {
    wire::FlowReport report{.jobs = {"flood"}};
    report.addresses = {cluster_.Address(0), cluster_.Address(static_cast<int>(4 + part))};
    for (std::uint64_t i = 0; i < 4'000; ++i) {
      report.opened.push_back({.id = wire::LocalFlowId(1 + part * 4'000 + i),
                               .destination = 1,
                               .protocol = wire::kProtocolUdp,
                               .path_ports = {}});
    }
    cluster_.Report(0, std::move(report));
  }
  cluster_.RunOne();
  EXPECT_GT(CountOf(0, FlowStatus::kNew), 15'000U) << "a turn chooses few ports";
  cluster_.Open(1, {{.id = 1, .to = 4}});
  int turns = 0;
  while (cluster_.FlowOf(1, 1).status == FlowStatus::kNew && ++turns < 10'000) cluster_.RunOne();
  EXPECT_LT(turns, 100);
  EXPECT_GT(CountOf(0, FlowStatus::kNew), 8'000U) << "the flood still waits";
  cluster_.Advance(10s);
  EXPECT_EQ(CountOf(0, FlowStatus::kNew), 0U);
  EXPECT_EQ(CountOf(0, FlowStatus::kRouted), 16'000U);
  cluster_.state().flow_paths.CheckInvariants();
}

// Reports of thousands of dead paths are handled in parts, and none is lost.
TEST_F(FloodOfOneHost, OfDeadPathsIsHandledInParts) {
  OpenMany(cluster_, 0, {4, 5, 6, 7}, 4'096);
  cluster_.Advance(5s);
  cluster_.cost_of_look = 2ms;
  wire::PathHealth health;
  for (std::uint64_t i = 0; i < 4'096; ++i) {
    health.flows.push_back({.flow = wire::LocalFlowId(1'000 + i),
                            .source_port = static_cast<std::uint16_t>(0xC000 + i),
                            .verdict = wire::PathVerdict::kLocallyRerouted});
  }
  const auto reroutes = [&] {
    const auto& events = cluster_.state().history;
    return events.dropped() + static_cast<std::uint64_t>(CountEvents("flow_locally_rerouted"));
  };
  const std::uint64_t before = reroutes();
  cluster_.Deliver(cluster_.host(0).peer, cluster_.host(0).instance, std::move(health));
  EXPECT_EQ(reroutes(), before) << "a long report waits for the turn";
  std::uint64_t last = before;
  for (int turn = 0; turn < 64 && last < before + 4'096; ++turn) {
    cluster_.RunOne();
    EXPECT_LE(reroutes() - last, HealthQueue::kRowsAtOnce);
    last = reroutes();
  }
  EXPECT_EQ(last, before + 4'096);
}

// A host's answers to probes decide about its own ports, not about those of its leaf.
TEST(FalseAnswers, OfOneHostLeaveTheModelsOfOthers) {
  const fabric::EcmpSpec hash{.hash = "crc32", .seed = 7};
  const auto leaf = *fabric::MakeEcmpHash(hash);
  Cluster cluster({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}, {}, hash);
  constexpr int kLiar = 0;
  std::set<int> liars = {kLiar};
  cluster.hash = [&](int from, int to, std::uint16_t port) {
    const int path = static_cast<int>(leaf->Choose(
        {.source = cluster.Address(from), .destination = cluster.Address(to), .source_port = port},
        4));
    return liars.contains(from) ? (path + 1) % 4 : path;
  };
  cluster.ConnectAll();
  cluster.Open(kLiar, {{.id = 1, .to = 4}});
  cluster.Advance(1s);
  EXPECT_GE(cluster.CounterValue("espalier_controller_path_map_mismatches_total"), 1);
  // Another host of the leaf gets a port at once, without any probe.
  cluster.host(1).answers_probes = false;
  cluster.Open(1, {{.id = 1, .to = 5}});
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(1, 1).status, FlowStatus::kRouted);
  // With a second voice the model has gone for all.
  liars.insert(2);
  cluster.Open(2, {{.id = 1, .to = 6}});
  cluster.Advance(1s);
  cluster.Open(1, {{.id = 2, .to = 6}});
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(1, 2).status, FlowStatus::kLearning);
}

// What a program calls its flows is a claim.
TEST(JobNames, OfAStartedJobCountForHostsOfItsRanksOnly) {
  Cluster cluster({.spines = 4, .leaves = 4, .hosts_per_leaf = 4});
  cluster.ConnectAll();
  JobSpec spec{.name = "train", .ranks = {"h0", "h4"}};
  ASSERT_TRUE(cluster.StartJob(spec));
  cluster.Open(0, {{.id = 1, .to = 5, .job = "train"}, {.id = 2, .to = 5, .job = "other"}});
  cluster.Open(1, {{.id = 1, .to = 5, .job = "train"}, {.id = 2, .to = 5, .job = "other"}});
  cluster.Settle();
  const auto job = [&](int host, std::uint64_t id) {
    return cluster.state().flows.JobName(cluster.FlowOf(host, id).job);
  };
  EXPECT_EQ(job(0, 1), "train");
  EXPECT_EQ(job(0, 2), "other");
  EXPECT_EQ(job(1, 1), "") << "it has no rank of the job";
  EXPECT_EQ(job(1, 2), "other");
}

}  // namespace
}  // namespace espalier::controller
