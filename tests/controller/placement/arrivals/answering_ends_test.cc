// Acknowledgements take the path of their data back, and add no load.
#include "controller/placement/arrivals/answering_ends.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;

// What the host's flow has sent until now, and whether it sends.
struct Sent {
  std::uint64_t bytes = 0;
  std::uint32_t edges = 2;  // 2: it has never been busy
};

// Two leaves with four hosts each and four spines. Each host has one queue pair, flow 1, to the
// host of the same number on the other leaf: a connection of hosts i and i + 4.
class AnsweringEndsTest : public testing::Test {
 protected:
  AnsweringEndsTest() { cluster_.ConnectAll(); }

  static constexpr std::uint64_t kBurst = 4 << 20;

  static int OtherHost(int host) { return (host + 4) % 8; }
  static std::uint32_t QueuePairOf(int host) { return 100 + static_cast<std::uint32_t>(host); }
  wire::FlowProgress Row(int host) const {
    const Sent& sent = sent_.at(host);
    const bool busy = sent.edges % 2 == 1;
    return {.id = wire::LocalFlowId(1),
            .outstanding_bytes = busy ? kBurst : 0U,
            .state = busy ? wire::FlowState::kActive : wire::FlowState::kIdle,
            .sent_bytes = sent.bytes,
            .edges = sent.edges,
            .edge_age_us = 100};
  }
  void Open(int host, const Sent& sent = {}, std::uint8_t paths = 1) {
    wire::FlowReport report = Cluster::Opening(cluster_, host,
                                               {{.id = 1,
                                                 .to = OtherHost(host),
                                                 .max_paths = paths,
                                                 .local_qpn = QueuePairOf(host),
                                                 .remote_qpn = QueuePairOf(OtherHost(host))}});
    sent_[host] = sent;
    report.progress = {Row(host)};
    cluster_.Report(host, report);
    cluster_.Settle();
  }
  void Report(int host) {
    wire::FlowReport report;
    report.progress = {Row(host)};
    cluster_.Report(host, report);
    cluster_.Settle();
  }
  void BeginBurst(int host) {
    ++sent_[host].edges;
    Report(host);
  }
  void EndBurst(int host) {
    ++sent_[host].edges;
    sent_[host].bytes += kBurst;
    Report(host);
  }
  // A small message between two reports.
  void SendLittle(int host) {
    sent_[host].edges += 2;
    sent_[host].bytes += 4'096;
    Report(host);
  }
  int SpineOf(int host) { return cluster_.AppliedSpine(host, 1, OtherHost(host)); }
  const Flow& FlowOf(int host) { return cluster_.FlowOf(host, 1); }
  Load MaxLoad() { return cluster_.state().flow_paths.assigner().MaxLoad(); }
  void Fail(const std::string& link) {
    ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kFail).has_value());
    cluster_.Settle();
  }

  Cluster cluster_{{.spines = 4, .leaves = 2, .hosts_per_leaf = 4}};
  std::map<int, Sent> sent_;
};

TEST_F(AnsweringEndsTest, AcknowledgementsTakeTheDataPathBackAndAddNoLoad) {
  for (int host = 0; host < 8; ++host) Open(host);
  EXPECT_EQ(FlowOf(0).other_end, OtherEnd::kQuiet);  // nobody knows yet which end sends
  EXPECT_FALSE(FlowOf(4).is_answering);
  for (int host = 0; host < 4; ++host) BeginBurst(host);
  for (int host = 0; host < 4; ++host) {
    EXPECT_EQ(FlowOf(host).other_end, OtherEnd::kAnswers);
    EXPECT_TRUE(FlowOf(host + 4).is_answering);
    EXPECT_EQ(SpineOf(host + 4), SpineOf(host));
  }
  const auto loads = cluster_.state().flow_paths.assigner().Loads();
  std::int64_t sum = 0;
  for (const std::int64_t load : loads) sum += load;
  EXPECT_EQ(sum, 4 * 2 * kLoadUnit);  // four flows with two hops each, and no answers
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(AnsweringEndsTest, BothDirectionsLeaveADeadLinkTogether) {
  for (const int host : {0, 4}) Open(host);
  BeginBurst(0);
  const int before = SpineOf(0);
  ASSERT_EQ(SpineOf(4), before);
  Fail("leaf1--spine" + std::to_string(before));
  EXPECT_NE(SpineOf(0), before);
  EXPECT_EQ(SpineOf(4), SpineOf(0));
  EXPECT_EQ(FlowOf(4).reason, FlowOf(0).reason);
  EXPECT_TRUE(FlowOf(4).is_parked);
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(AnsweringEndsTest, AnEndThatBeginsToSendIsAnElephant) {
  for (const int host : {0, 4}) Open(host);
  BeginBurst(0);
  ASSERT_TRUE(FlowOf(4).is_answering);
  BeginBurst(4);
  EXPECT_FALSE(FlowOf(4).is_answering);
  EXPECT_FALSE(FlowOf(4).is_parked);
  EXPECT_EQ(FlowOf(0).other_end, OtherEnd::kSends);
  EXPECT_EQ(FlowOf(4).other_end, OtherEnd::kSends);
  cluster_.state().flow_paths.CheckInvariants();
}

// Programs announce bytes for both ends when they connect.
TEST_F(AnsweringEndsTest, WhatIsOnlyAnnouncedDoesNotCount) {
  for (const int host : {0, 4}) Open(host);
  wire::FlowReport report;
  report.progress = {Row(4)};
  report.progress[0].remaining_bytes = kBurst;
  cluster_.Report(4, report);
  cluster_.Settle();
  BeginBurst(0);
  EXPECT_TRUE(FlowOf(4).is_answering);
}

// Such as the credits that receivers send.
TEST_F(AnsweringEndsTest, SmallMessagesDoNotMakeAnEndAnElephant) {
  for (const int host : {0, 4}) Open(host);
  BeginBurst(0);
  const std::int64_t changes = cluster_.CounterValue("espalier_bursts_without_decision_total");
  for (int i = 0; i < 3; ++i) {
    SendLittle(4);
    EXPECT_TRUE(FlowOf(4).is_answering);
    EXPECT_TRUE(FlowOf(4).is_parked);
  }
  EXPECT_EQ(cluster_.CounterValue("espalier_bursts_without_decision_total"), changes);
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(AnsweringEndsTest, TheControllerAsksForTheOtherEndOfAnElephant) {
  Open(0);
  BeginBurst(0);
  EXPECT_EQ(FlowOf(0).other_end, OtherEnd::kUnknown);
  cluster_.Advance(2s);
  const wire::QueuePair wanted{.address = cluster_.Address(4), .number = QueuePairOf(4)};
  EXPECT_THAT(cluster_.host(4).wanted, Each(wanted));
  EXPECT_THAT(cluster_.host(4).wanted, Not(IsEmpty()));
  EXPECT_THAT(cluster_.host(5).wanted, IsEmpty());
  Open(4);
  EXPECT_TRUE(FlowOf(4).is_answering);
  EXPECT_EQ(SpineOf(4), SpineOf(0));
}

TEST_F(AnsweringEndsTest, WhatWasSentBeforeTheReportCounts) {
  Open(4, {.bytes = 64 << 20, .edges = 8});
  Open(0);
  EXPECT_TRUE(FlowOf(0).is_answering);
  for (int i = 0; i < 3; ++i) {
    BeginBurst(0);
    EndBurst(0);
  }
  EXPECT_FALSE(FlowOf(0).is_answering);  // it has sent 12 of 64 MiB
  EXPECT_FALSE(FlowOf(4).is_answering);
}

TEST_F(AnsweringEndsTest, EndsThatCloseLeaveNothingBehind) {
  for (const int host : {0, 4}) Open(host);
  BeginBurst(0);
  cluster_.End(0, 1);
  cluster_.Settle();
  EXPECT_EQ(FlowOf(4).other_end, OtherEnd::kUnknown);
  BeginBurst(4);  // the other end is gone, but it sends
  cluster_.Advance(1s);
  EXPECT_FALSE(FlowOf(4).is_parked);
  cluster_.End(4, 1);
  cluster_.Settle();
  EXPECT_EQ(cluster_.state().connections.size(), 0U);
  for (const int host : {0, 4}) Open(host);
  BeginBurst(0);
  EXPECT_TRUE(FlowOf(4).is_answering);
}

TEST_F(AnsweringEndsTest, SplitFlowsAnswerPathByPath) {
  for (const int host : {0, 4}) Open(host, {}, 3);
  BeginBurst(0);
  EXPECT_EQ(cluster_.AppliedSpines(4, 1, 0), cluster_.AppliedSpines(0, 1, 4));
  cluster_.state().flow_paths.CheckInvariants();
}

// The host of an answering end sees that its peer repeats requests, and leaves a dead path by
// itself.
TEST_F(AnsweringEndsTest, AcknowledgementsHaveAStandbyThatAddsNoLoad) {
  for (const int host : {0, 4}) {
    cluster_.host(host).features.emplace_back("standby");
    cluster_.Connect(host);
  }
  for (const int host : {0, 4}) Open(host);
  BeginBurst(0);
  ASSERT_TRUE(FlowOf(4).is_answering);
  cluster_.Advance(2s);
  const auto& paths = cluster_.host(4).sets.at(1).paths;
  ASSERT_EQ(paths.size(), 2U);
  ASSERT_TRUE(paths[1].IsStandby());
  const int standby = cluster_.SpineOf(4, 0, paths[1].source_port);
  EXPECT_NE(standby, SpineOf(4));
  // Only the data are counted: they would meet nothing on their own standby path.
  EXPECT_EQ(cluster_.controller().standbys().WorstFailure().load, 1);

  Cluster::Host& own = cluster_.host(4);
  const std::uint32_t left = paths[0].path_id;
  const std::uint16_t port = paths[1].source_port;
  const int data = SpineOf(0);
  own.ports[1] = port;
  own.sets.at(1).paths = {{.source_port = port, .encoding = {}}};
  cluster_.Deliver(own.peer, own.instance,
                   wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                               .path_id = left,
                                               .source_port = port,
                                               .verdict = wire::PathVerdict::kLocallyRerouted}}});
  cluster_.Settle();
  cluster_.Advance(2s);
  EXPECT_EQ(SpineOf(4), standby) << "the controller confirms the host's choice";
  EXPECT_EQ(SpineOf(0), data) << "the data stay where they are";
  EXPECT_TRUE(FlowOf(4).is_answering);
  EXPECT_TRUE(FlowOf(4).is_parked);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  cluster_.state().flow_paths.CheckInvariants();
}

// A host that claims the numbers of others' queue pairs gets no say over their connections.
TEST_F(AnsweringEndsTest, AHostCannotClaimAnotherHostsEnd) {
  for (const int host : {0, 4}) Open(host);
  wire::FlowReport lie = Cluster::Opening(
      cluster_, 1, {{.id = 7, .to = 0, .local_qpn = QueuePairOf(4), .remote_qpn = QueuePairOf(0)}});
  lie.addresses[lie.opened[0].source] = cluster_.Address(4);
  lie.progress = {};
  cluster_.Report(1, lie);
  cluster_.Settle();
  BeginBurst(0);
  EXPECT_TRUE(FlowOf(4).is_answering);
  EXPECT_EQ(cluster_.FlowOf(1, 7).other_end, OtherEnd::kUnknown);
}

}  // namespace
}  // namespace espalier::controller
