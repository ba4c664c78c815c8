// Tests that a malicious agent cannot harm others.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

constexpr fabric::LeafSpineOptions kShape{.spines = 4, .leaves = 3, .hosts_per_leaf = 4};
constexpr int kThief = 1;

// Two hosts of one leaf: the first has flows, which the second attacks.
class Security : public testing::Test {
 protected:
  Security() : cluster_(kShape) {
    cluster_.ConnectAll();
    cluster_.Open(0, {{.id = 1, .to = 4}, {.id = 2, .to = 5}, {.id = 3, .to = 6}});
    cluster_.Settle();
    before_ = cluster_.host(0).sets;
    pushes_ = cluster_.host(0).pushes.size();
  }

  void Deliver(wire::Body body) {
    cluster_.Deliver(cluster_.host(kThief).peer, cluster_.host(kThief).instance, std::move(body));
    cluster_.Settle();
  }

  // The flows of the first host keep their paths, and nothing new was pushed to it.
  void ExpectUntouched() {
    EXPECT_EQ(cluster_.host(0).sets, before_);
    EXPECT_EQ(cluster_.host(0).pushes.size(), pushes_);
    for (std::uint64_t id = 1; id <= 3; ++id) {
      EXPECT_EQ(cluster_.FlowOf(0, id).status, FlowStatus::kRouted) << id;
    }
    EXPECT_EQ(cluster_.state().topology.version(), 1);
  }

  Cluster cluster_;
  std::map<std::uint64_t, wire::PathSet> before_;
  std::size_t pushes_ = 0;
};

TEST_F(Security, ReportsEndNoFlowOfAnother) {
  Deliver(wire::FlowReport{
      .sequence = 1, .ended = {wire::LocalFlowId(1), wire::LocalFlowId(2), wire::LocalFlowId(3)}});
  Deliver(wire::FlowReport{.full = true, .sequence = 2});
  ExpectUntouched();
}

TEST_F(Security, FlowsThatClaimToComeFromAnotherHostGetNoPathAndNoPort) {
  wire::FlowReport report =
      Cluster::Opening(cluster_, 0, {{.id = 9, .to = 4}, {.id = 10, .to = 5}});
  report.sequence = 1;
  Deliver(report);
  ASSERT_TRUE(cluster_.state().flows.CountOfAgent(AgentId(kThief)) == 2);
  EXPECT_EQ(cluster_.FlowOf(kThief, 9).status, FlowStatus::kUnroutable);
  EXPECT_TRUE(cluster_.host(kThief).ports.empty());
  ExpectUntouched();
}

TEST_F(Security, HealthReportsOnOtherHostsFlowsAreIgnored) {
  wire::PathHealth health;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    for (const wire::PathVerdict verdict :
         {wire::PathVerdict::kDead, wire::PathVerdict::kLocallyRerouted}) {
      health.flows.push_back(
          {.flow = wire::LocalFlowId(id), .source_port = 50'000, .verdict = verdict});
    }
  }
  Deliver(health);
  ExpectUntouched();
}

TEST_F(Security, AcknowledgementsCountForTheirSenderOnly) {
  cluster_.host(0).acknowledges = false;
  cluster_.Open(0, {{.id = 4, .to = 7}});
  cluster_.Settle();
  const std::size_t open = cluster_.UnacknowledgedFlows();
  ASSERT_GT(open, 0U);
  Deliver(wire::Ack{.epoch = cluster_.host(0).epoch, .generation = cluster_.host(0).generation});
  Deliver(wire::Ack{.epoch = cluster_.host(0).epoch,
                    .generation = std::numeric_limits<std::uint64_t>::max()});
  EXPECT_EQ(cluster_.UnacknowledgedFlows(), open);
}

TEST_F(Security, ProbeAnswersForAnotherHostsNicAreIgnored) {
  const int spine = cluster_.SpineOf(0, 4, cluster_.host(0).ports.at(1));
  for (std::uint64_t order = 0; order < 64; ++order) {
    wire::ProbeReport lie{.order = order, .done = true};
    for (std::uint16_t port = 49'152; port < 49'252; ++port) {
      lie.answers.push_back({port, 2, cluster_.Address((spine + 1) % 4), 10});
    }
    Deliver(lie);
  }
  ExpectUntouched();
}

TEST_F(Security, EventsOfAnotherHostsNicAreIgnored) {
  Deliver(wire::LinkEvent{.address = cluster_.Address(0), .up = false, .source = "nic"});
  Deliver(wire::LinkEvent{.link = "leaf0--spine0", .up = false, .source = "nic"});
  ExpectUntouched();
}

TEST_F(Security, AnEpochOutOfReachIsRefused) {
  const std::uint64_t epoch = cluster_.state().epoch;
  cluster_.host(kThief).instance = 666;
  for (const std::uint64_t claimed :
       {std::numeric_limits<std::uint64_t>::max(), std::uint64_t{1} << 60, epoch + (2 << 20)}) {
    cluster_.Advance(std::chrono::seconds(10));
    for (int host = 0; host < cluster_.hosts(); ++host) {
      if (host != kThief) cluster_.Report(host, {.sequence = 0});
    }
    wire::Hello hello;
    hello.name = "h1";
    hello.highest_epoch = claimed;
    cluster_.SayHello(kThief, hello);
    cluster_.Settle();
    EXPECT_FALSE(cluster_.host(kThief).welcome->accepted);
    EXPECT_EQ(cluster_.state().epoch, epoch);
  }
}

TEST_F(Security, APeerIsOnlyTheAgentOfItsKey) {
  cluster_.Advance(std::chrono::seconds(20));  // the true h0 is silent
  wire::Hello hello;
  hello.name = "h0";
  cluster_.host(kThief).instance = 666;
  // The peer number of a connection is one more than that of the connection before it.
  cluster_.proven_names[PeerId(cluster_.host(cluster_.hosts() - 1).peer.value() + 1)] = "h1";
  cluster_.SayHello(kThief, hello);
  cluster_.Settle();
  ASSERT_TRUE(cluster_.host(kThief).welcome.has_value());
  EXPECT_FALSE(cluster_.host(kThief).welcome->accepted);
  EXPECT_EQ(cluster_.host(kThief).welcome->reason, "this key belongs to h1, not to h0");
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_peers_refused_total"), 1);
  cluster_.Advance(std::chrono::seconds(2));
  const auto events = cluster_.state().history.Since(0, 10'000);
  EXPECT_TRUE(std::ranges::any_of(events, [](const HistoryEvent& event) {
    return event.kind == "peer_refused" &&
           event.text == "who=h1 reason=\"it claims the name h0\" count=1";
  }));
  EXPECT_EQ(cluster_.state().flows.CountOfAgent(AgentId(0)), 3U);
}

TEST_F(Security, StrangersCannotFillTheHistory) {
  const std::uint64_t before = cluster_.state().history.last_sequence();
  for (int i = 0; i < 100'000; ++i) {
    cluster_.controller().HandleRefusal("10.0.0." + std::to_string(i), "its key is unknown");
  }
  cluster_.Advance(std::chrono::seconds(2));
  EXPECT_LE(cluster_.state().history.last_sequence(), before + 17 + 24);  // and agents that went
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_peers_refused_total"), 100'000);
}

}  // namespace
}  // namespace espalier::controller
