// An agent with a valid key that sends what Espalier's agents never would. It must not use up the
// cluster's history, the controller's time or the epochs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr fabric::LeafSpineOptions kShape{.spines = 4, .leaves = 4, .hosts_per_leaf = 4};
constexpr int kLiar = 1;

class HostileAgent : public testing::Test {
 protected:
  void Deliver(wire::Body body) {
    cluster_.Deliver(cluster_.host(kLiar).peer, cluster_.host(kLiar).instance, std::move(body));
  }
  std::int64_t CountEvents(const std::string& kind) {
    const auto events = cluster_.state().history.Since(0, 100'000);
    return std::ranges::count(events, kind, &HistoryEvent::kind);
  }
  std::vector<fabric::LinkId> DetectedDown() {
    std::vector<fabric::LinkId> down;
    for (std::size_t i = 0; i < cluster_.state().topology.links().size(); ++i) {
      const fabric::LinkId link(static_cast<std::int32_t>(i));
      if (cluster_.controller().links().health.IsDown(link)) down.push_back(link);
    }
    return down;
  }
  bool IsConnected(int host) { return cluster_.state().agents.At(AgentId(host)).peer.has_value(); }

  static ControllerOptions Options() {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;  // what UDP probes learn holds for jobs over TCP
    return options;
  }

  Cluster cluster_{kShape, Options()};
};

TEST_F(HostileAgent, CannotReplaceTheHistoryOfTheCluster) {
  cluster_.ConnectAll();
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail));
  cluster_.Open(kLiar, {{.id = 1, .to = 8}});
  cluster_.Settle();
  for (int second = 0; second < 600; ++second) {
    for (int i = 0; i < 100; ++i) {
      Deliver(wire::ProbeReport{.order = 1, .done = true, .error = "no"});
      Deliver(wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                          .source_port = 50'000,
                                          .verdict = wire::PathVerdict::kLocallyRerouted}}});
      cluster_.DeliverBytes(cluster_.host(kLiar).peer, "no message");
    }
    for (int host = 0; host < cluster_.hosts(); ++host) {
      if (second % 2 == 0) cluster_.Report(host, {.sequence = 0});
    }
    cluster_.Advance(1s);
  }
  EXPECT_EQ(CountEvents("link_failed"), 1);
  const auto events = cluster_.state().history.Since(0, 100'000);
  EXPECT_LE(std::ranges::count(events, "h1", &HistoryEvent::source), 256);
  EXPECT_GT(cluster_.state().history.dropped(), 100'000U);
  EXPECT_GT(CountEvents("events_dropped"), 0);
  cluster_.controller().RefreshMetrics();
  EXPECT_THAT(cluster_.MetricsText(), HasSubstr("espalier_controller_events_dropped "));
}

TEST_F(HostileAgent, CanReportAFlowOnceAnInterval) {
  cluster_.ConnectAll();
  cluster_.Open(kLiar, {{.id = 1, .to = 8}});
  cluster_.Settle();
  wire::PathHealth health;
  for (std::uint16_t i = 0; i < 64; ++i) {
    health.flows.push_back({.flow = wire::LocalFlowId(1),
                            .source_port = static_cast<std::uint16_t>(50'000 + i),
                            .verdict = wire::PathVerdict::kDead});
  }
  for (int i = 0; i < 10; ++i) Deliver(health);
  cluster_.Settle();  // what is beyond HealthQueue::kRowsAtOnce waits for a turn
  EXPECT_EQ(CountEvents("flow_path_dead"), 1);
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_verdicts_ignored_total"), 639);
}

TEST_F(HostileAgent, IsDisconnectedForItsEntriesAndNoOtherAgentIs) {
  cluster_.ConnectAll();
  wire::FlowReport churn;  // few messages and bytes, much work
  for (std::uint64_t id = 0; id < 16'384; ++id) churn.ended.push_back(wire::LocalFlowId(id));
  std::int64_t sent = 0;
  while (IsConnected(kLiar) && sent < 1'000) {
    ++sent;
    Deliver(churn);
  }
  EXPECT_LT(sent, 25);
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_agents_over_limit_total"), 1);
  for (int host = 0; host < cluster_.hosts(); ++host) EXPECT_EQ(IsConnected(host), host != kLiar);
  // A new connection does not reset the allowance.
  cluster_.Connect(kLiar);
  EXPECT_FALSE(IsConnected(kLiar));
  cluster_.Advance(2s);
  cluster_.Connect(kLiar);
  EXPECT_TRUE(IsConnected(kLiar));
  EXPECT_EQ(CountEvents("peer_refused"), 1);
}

TEST_F(HostileAgent, HonestAgentsStayWithinTheLimits) {
  // 4,096 flows in a full report, all of which change every 10 ms, and 100,000 answers to probes a
  // second.
  const wire::AgentLimits limits;
  TokenBucket allowance(limits.entries_per_second, limits.entries_per_second, TimePoint{});
  wire::FlowReport full{.full = true, .jobs = {"j"}, .addresses = {{}, {}}};
  full.opened.resize(4'096);
  full.progress.resize(4'096);
  EXPECT_TRUE(allowance.Take(static_cast<double>(wire::CostOf(full)), TimePoint{}));
  wire::FlowReport progress;
  progress.progress.resize(4'096);
  wire::ProbeReport answers;
  answers.answers.resize(50);
  for (int turn = 0; turn < 1'000; ++turn) {
    const TimePoint now = TimePoint{} + turn * 10ms;
    EXPECT_TRUE(allowance.Take(static_cast<double>(wire::CostOf(progress)), now));
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(allowance.Take(static_cast<double>(wire::CostOf(answers)), now));
    }
  }
  EXPECT_GT(allowance.Level(TimePoint{} + 10s), limits.entries_per_second / 2);
}

// Many agents are told to report less often, and each hears the controller in every interval.
TEST(Overload, AgentsAreToldToReportLessOften) {
  Cluster cluster(kShape, {.max_reports_per_second = 100});
  cluster.ConnectAll();
  EXPECT_EQ(cluster.host(0).welcome->report_interval_us, 0U) << "nobody was connected";
  cluster.Advance(1s);
  cluster.Connect(0);
  EXPECT_EQ(cluster.host(0).welcome->report_interval_us, 160'000U) << "16 agents";
  EXPECT_EQ(cluster.host(0).welcome->max_entries_per_second, 1'200'000U);
  for (int host = 0; host < cluster.hosts(); ++host) cluster.host(host).heartbeats = 0;
  cluster.Advance(10s);
  for (int host = 0; host < cluster.hosts(); ++host) {
    EXPECT_GE(cluster.host(host).heartbeats, 9) << host;
    EXPECT_LE(cluster.host(host).heartbeats, 11) << host;
    EXPECT_EQ(cluster.host(host).report_interval_us, 160'000U) << host;
  }
}

TEST_F(HostileAgent, CannotRaiseTheEpochWithoutLimit) {
  cluster_.ConnectAll();
  const std::uint64_t stored = cluster_.state().epoch;
  std::set<std::uint64_t> epochs;
  for (std::uint64_t instance = 1'000; instance < 1'020; ++instance) {
    cluster_.host(kLiar).instance = instance;
    cluster_.Advance(10s);  // the one before is silent
    wire::Hello hello;
    hello.name = "h1";
    hello.highest_epoch = cluster_.state().epoch + 1;
    cluster_.SayHello(kLiar, hello);
    cluster_.Settle();
    epochs.insert(cluster_.state().epoch);
    hello.highest_epoch = cluster_.state().epoch + (1 << 20) - 2;
    cluster_.SayHello(kLiar, hello);
    cluster_.Settle();
    epochs.insert(cluster_.state().epoch);
  }
  EXPECT_THAT(epochs, testing::ElementsAre(stored + 2, stored + (1 << 20) + 1));
}

TEST_F(HostileAgent, TwoHonestAgentsThatSawDifferentEpochsAreBothBelieved) {
  const std::uint64_t stored = cluster_.state().epoch;
  for (const auto& [host, seen] : {std::pair(2, stored + 3), std::pair(3, stored + 9)}) {
    cluster_.host(host).instance = 500 + static_cast<std::uint64_t>(host);
    wire::Hello hello;
    hello.name = "h" + std::to_string(host);
    hello.highest_epoch = seen;
    cluster_.SayHello(host, hello);
    cluster_.Settle();
    ASSERT_TRUE(cluster_.host(host).welcome.has_value());
    EXPECT_TRUE(cluster_.host(host).welcome->accepted) << cluster_.host(host).welcome->reason;
    EXPECT_GT(cluster_.state().epoch, seen);
  }
}

// However often a liar and restarts of the controller raised the epoch.
TEST_F(HostileAgent, CannotMakeVersionsOfPlansFallOrOverflow) {
  cluster_.ConnectAll();
  JobSpec spec{.name = "train", .ranks = {}};
  for (int i = 0; i < 8; ++i) spec.ranks.push_back("h" + std::to_string(i));
  ASSERT_TRUE(cluster_.StartJob(spec));
  cluster_.Settle();
  const auto version = [&] {
    const auto& plan = cluster_.controller().jobs().all().at("train").active;
    return plan ? static_cast<std::int64_t>(plan->version) : 0;
  };
  std::int64_t before = version();
  EXPECT_GT(before, 0);
  for (const int bits : {20, 31, 32, 38}) {
    cluster_.disk.epoch = std::uint64_t{1} << bits;
    cluster_.RestartController();
    cluster_.ConnectAll();
    cluster_.Advance(5s);
    EXPECT_GT(version(), before) << bits;
    before = version();
  }
}

// All hosts repeatedly report every flow of theirs as dead, and no train can be sent.
TEST_F(HostileAgent, ReportsOfHostsAloneTakeNoLinkDown) {
  cluster_.ConnectAll();
  std::uint64_t next = 1;
  for (int round = 0; round < 20; ++round) {
    for (int liar = 0; liar < cluster_.hosts(); ++liar) {
      cluster_.Open(liar, {{.id = next, .to = (liar + 4) % 16}});
      wire::PathHealth health;
      for (std::uint32_t path = 0; path < 4; ++path) {
        health.flows.push_back({.flow = wire::LocalFlowId(next),
                                .path_id = path,
                                .source_port = 50'000,
                                .verdict = wire::PathVerdict::kDead,
                                .basis = wire::PathBasis::kProbed});
      }
      cluster_.Deliver(cluster_.host(liar).peer, cluster_.host(liar).instance, health);
      ++next;
    }
    cluster_.Advance(1s);
  }
  EXPECT_GT(CountEvents("flow_path_dead"), 0);
  EXPECT_TRUE(DetectedDown().empty());
}

TEST_F(HostileAgent, AFeedTakesDownNoMoreLinksThanTheBudgetButTheOperatorCan) {
  cluster_.ConnectAll();
  const auto& topology = cluster_.state().topology;
  std::vector<std::string> links;
  for (int leaf = 0; leaf < 4; ++leaf) {
    for (int spine = 0; spine < 4; ++spine) {
      links.push_back("leaf" + std::to_string(leaf) + "--spine" + std::to_string(spine));
    }
  }
  for (const std::string& link : links) {
    cluster_.controller().links().health.HandleFeedReport(topology.FindLink(link).value(), false,
                                                          "feed");
  }
  EXPECT_EQ(DetectedDown().size(), 4U);
  EXPECT_EQ(cluster_.controller().links().health.awaiting_operator().size(), 12U);
  EXPECT_EQ(CountEvents("detection_budget_exceeded"), 1);
  EXPECT_EQ(cluster_.controller().links().health.awaiting_operator().count(
                *topology.FindLink("leaf3--spine3")),
            1U);
  for (int i = 0; i < 60; ++i) {
    for (int host = 0; host < cluster_.hosts(); ++host) {
      cluster_.Deliver(cluster_.host(host).peer, cluster_.host(host).instance, wire::Heartbeat{});
    }
    cluster_.Advance(2s);
  }
  EXPECT_EQ(DetectedDown().size(), 4U) << "time alone confirms nothing";
  EXPECT_THAT(cluster_.MetricsText(), HasSubstr("espalier_controller_links_awaiting_operator 12"));
  // The operator has no budget.
  ASSERT_TRUE(cluster_.ChangeNode("spine1", IntentAction::kFail));
  cluster_.Advance(1s);
  EXPECT_EQ(cluster_.state().topology.link(*topology.FindLink("leaf3--spine1")).state,
            fabric::LinkState::kDown);
  // A link that awaits the operator is not down after a restart.
  cluster_.RestartController();
  cluster_.Settle();
  EXPECT_LE(DetectedDown().size(), 8U);
  // The feed withdraws its reports on the others, and detection continues.
  for (const std::string& link : links) {
    cluster_.controller().links().health.HandleFeedReport(
        cluster_.state().topology.FindLink(link).value(), true, "feed");
  }
  EXPECT_TRUE(cluster_.controller().links().health.awaiting_operator().empty());
}

}  // namespace
}  // namespace espalier::controller
