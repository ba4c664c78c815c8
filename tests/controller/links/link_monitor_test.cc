#include "controller/links/link_monitor.h"

#include <gtest/gtest.h>

#include <random>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::DirectedLink;
using fabric::LinkId;

constexpr TimePoint kStart{1h};
const LinkId kUp0(0);    // leaf0--spine0
const LinkId kUp1(1);    // leaf1--spine0
const LinkId kDown(2);   // leaf2--spine0: the far link
const LinkId kOther(3);  // leaf3--spine0

// The links join leaves and spine0, in this order.
std::vector<DirectedLink> Path(LinkId up, LinkId down) { return {{up, true}, {down, false}}; }

TEST(LinkMonitor, OneHostsReportsTakeNoLinkDown) {
  LinkMonitor monitor;
  for (int i = 0; i < 10; ++i) {
    monitor.ReportPathFailure(AgentId(7), Path(kUp0, kDown), kStart + i * 100ms);
    EXPECT_TRUE(monitor.Update(kStart + i * 100ms).empty());
  }
  EXPECT_TRUE(monitor.HasPathFailures());
  EXPECT_TRUE(monitor.Update(kStart + 7s).empty());
  EXPECT_FALSE(monitor.HasPathFailures());
}

TEST(LinkMonitor, ARestoredLinkIsDownUntilAReportOrAProbe) {
  for (const bool is_proof : {true, false}) {
    LinkMonitor monitor;
    monitor.ConfirmAlive(kDown, kStart);  // of what nobody doubts
    EXPECT_TRUE(monitor.Update(kStart).empty());
    monitor.RestoreDown(kDown, kStart);
    EXPECT_TRUE(monitor.IsDown(kDown));
    EXPECT_TRUE(monitor.Update(kStart + 24h).empty()) << "time alone changes nothing";
    EXPECT_EQ(monitor.UnconfirmedDown(), std::vector<LinkId>{kDown});
    const TimePoint then = kStart + 24h;
    if (is_proof) {
      monitor.ConfirmAlive(kDown, then);
    } else {
      monitor.HandleFeedState(kDown, /*up=*/true, then);
    }
    EXPECT_TRUE(monitor.UnconfirmedDown().empty());
    EXPECT_TRUE(monitor.Update(then + 1s).empty()) << "it must stay up first";
    const auto changes = monitor.Update(then + 2s);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_FALSE(changes[0].down);
  }
}

TEST(LinkMonitor, ARepeatedReportReplacesTheRestoredState) {
  LinkMonitor monitor;
  monitor.RestoreDown(kDown, kStart);
  monitor.HandleFeedState(kDown, /*up=*/false, kStart + 1s);
  EXPECT_TRUE(monitor.UnconfirmedDown().empty());
  monitor.ConfirmAlive(kDown, kStart + 2s);
  EXPECT_TRUE(monitor.Update(kStart + 1h).empty());
  EXPECT_TRUE(monitor.IsDown(kDown));
}

TEST(LinkMonitor, TheLinkThatAllReportIsDown) {
  LinkMonitor monitor;
  monitor.ReportPathFailure(AgentId(1), Path(kUp0, kDown), kStart);
  monitor.ReportPathFailure(AgentId(2), Path(kUp1, kDown), kStart + 20ms);
  const auto changes = monitor.Update(kStart + 20ms);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].link, kDown);
  EXPECT_TRUE(changes[0].down);
  EXPECT_EQ(changes[0].why, "hosts");
  EXPECT_TRUE(monitor.IsDown(kDown));
  EXPECT_FALSE(monitor.IsDown(kUp0));
  EXPECT_TRUE(monitor.Update(kStart + 21ms).empty());
}

TEST(LinkMonitor, TrafficThatGetsThroughClearsALink) {
  LinkMonitor monitor;
  // Two hosts of one leaf cannot tell their uplink from the far link; a third host's traffic can.
  monitor.ReportPathFailure(AgentId(1), Path(kUp0, kDown), kStart);
  monitor.ReportPathFailure(AgentId(2), Path(kUp0, kDown), kStart);
  monitor.ReportDelivery(Path(kUp0, kOther), kStart + 100ms);
  const auto changes = monitor.Update(kStart + 100ms);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].link, kDown);
}

TEST(LinkMonitor, OfLinksReportedAlikeTheFurthestIsSuspectedUnlessItDelivers) {
  for (const bool far_link_works : {false, true}) {
    LinkMonitor monitor;
    monitor.ReportPathFailure(AgentId(1), Path(kUp0, kDown), kStart);
    monitor.ReportPathFailure(AgentId(2), Path(kUp0, kDown), kStart);
    if (far_link_works) monitor.ReportDelivery(Path(kUp1, kDown), kStart + 100ms);
    const auto changes = monitor.Update(kStart + 100ms);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].link, far_link_works ? kUp0 : kDown);
  }
}

// The far link passes what its leaf sends, and loses what the leaf should get.
TEST(LinkMonitor, ADeliveryInTheOtherDirectionClearsNothing) {
  LinkMonitor monitor;
  monitor.ReportPathFailure(AgentId(1), Path(kUp0, kDown), kStart);
  monitor.ReportPathFailure(AgentId(2), Path(kUp0, kDown), kStart);
  monitor.ReportDelivery(Path(kDown, kOther), kStart + 100ms);
  const auto changes = monitor.Update(kStart + 100ms);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].link, kDown);
}

TEST(LinkMonitor, ADeliveryBeforeTheFailureClearsNothing) {
  LinkMonitor monitor;
  monitor.ReportPathFailure(AgentId(1), Path(kUp0, kDown), kStart);
  monitor.ReportPathFailure(AgentId(2), Path(kUp1, kDown), kStart);
  monitor.ReportDelivery(Path(kUp0, kDown), kStart - 40ms);
  EXPECT_EQ(monitor.Update(kStart + 10ms).size(), 1U);
}

TEST(LinkMonitor, IsTriedAgainAfterAWhileThatDoubles) {
  LinkMonitor monitor;
  TimePoint now = kStart;
  for (const Duration hold : {30s, 60s, 120s}) {
    monitor.ReportPathFailure(AgentId(1), Path(kUp0, kDown), now);
    monitor.ReportPathFailure(AgentId(2), Path(kUp1, kDown), now);
    ASSERT_EQ(monitor.Update(now).size(), 1U);
    EXPECT_TRUE(monitor.Update(now + hold - 1ms).empty());
    now += hold;
    const auto changes = monitor.Update(now);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_FALSE(changes[0].down);
    now += 6s;
  }
}

TEST(LinkMonitor, AFeedIsBelievedAtOnceAndItsRestoreAfterAWhile) {
  LinkMonitor monitor;
  monitor.HandleFeedState(kDown, false, kStart);
  ASSERT_EQ(monitor.Update(kStart).size(), 1U);
  monitor.HandleFeedState(kDown, false, kStart + 1s);  // again: nothing new
  EXPECT_TRUE(monitor.Update(kStart + 1h).empty());
  monitor.HandleFeedState(kDown, true, kStart + 1h);
  EXPECT_TRUE(monitor.Update(kStart + 1h + 1s).empty());
  EXPECT_EQ(monitor.Update(kStart + 1h + 2s).size(), 1U);
  EXPECT_FALSE(monitor.IsDown(kDown));
}

class Proof : public testing::Test {
 protected:
  std::vector<LinkMonitor::Change> Update(TimePoint now) {
    return monitor_.Update(now, {.is_failed = {}, .can_be_probed = [](LinkId) { return true; }});
  }
  // A feed reports the link down, and after a minute up. Returns when it is due to be used again.
  TimePoint GoDownAndUp() {
    monitor_.HandleFeedState(kDown, false, kStart);
    EXPECT_EQ(Update(kStart).size(), 1U);
    monitor_.HandleFeedState(kDown, true, kStart + 1min);
    return kStart + 1min + LinkMonitorOptions().restore_after;
  }
  LinkMonitor monitor_;
};

TEST_F(Proof, ALinkIsUsedAgainOnceAProbeHasPassedIt) {
  const TimePoint due = GoDownAndUp();
  monitor_.ConfirmAlive(kDown, due - 1s);  // too early to count
  EXPECT_TRUE(monitor_.UnconfirmedDown().empty());
  EXPECT_TRUE(Update(due).empty());
  EXPECT_TRUE(monitor_.IsDown(kDown));
  EXPECT_EQ(monitor_.UnconfirmedDown(), std::vector<LinkId>{kDown});
  monitor_.ConfirmAlive(kDown, due + 1s);
  EXPECT_TRUE(monitor_.UnconfirmedDown().empty());
  const auto changes = Update(due + 1s);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_FALSE(changes[0].down);
  EXPECT_EQ(changes[0].why, "probe");
}

TEST_F(Proof, WithoutAnAnswerTheFeedIsBelievedAfterAWhile) {
  const TimePoint due = GoDownAndUp();
  EXPECT_TRUE(Update(due).empty());
  EXPECT_TRUE(Update(due + LinkMonitorOptions().proof_wait - 1ms).empty());
  const auto changes = Update(due + LinkMonitorOptions().proof_wait);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].why, "tried");
}

TEST_F(Proof, WithoutAnAnswerALinkThatHostsFoundDeadStaysDownForLonger) {
  monitor_.ReportPathFailure(AgentId(1), Path(kUp0, kDown), kStart);
  monitor_.ReportPathFailure(AgentId(2), Path(kUp1, kDown), kStart);
  ASSERT_EQ(Update(kStart).size(), 1U);
  const TimePoint due = kStart + LinkMonitorOptions().hold;
  EXPECT_TRUE(Update(due).empty());
  EXPECT_TRUE(Update(due + LinkMonitorOptions().longest - 1ms).empty());
  EXPECT_EQ(Update(due + LinkMonitorOptions().longest).size(), 1U);
}

TEST_F(Proof, OneOfAnEarlierTimeDoesNotCount) {
  const TimePoint due = GoDownAndUp();
  EXPECT_TRUE(Update(due).empty());
  monitor_.ConfirmAlive(kDown, due + 1s);
  monitor_.HandleFeedState(kDown, false, due + 1s);  // before it was used
  EXPECT_TRUE(Update(due + 1s).empty());
  EXPECT_TRUE(monitor_.UnconfirmedDown().empty());
  monitor_.HandleFeedState(kDown, true, due + 2s);
  EXPECT_TRUE(Update(due + 1h).empty());
  EXPECT_EQ(monitor_.UnconfirmedDown(), std::vector<LinkId>{kDown});
}

TEST(LinkMonitor, AFlappingLinkStaysDownLonger) {
  LinkMonitor monitor;
  TimePoint now = kStart;
  int changes = 0;
  for (int i = 0; i < 600; ++i) {  // every second down, then up: for ten minutes
    monitor.HandleFeedState(kDown, i % 2 == 1, now);
    changes += static_cast<int>(monitor.Update(now).size());
    now += 1s;
  }
  EXPECT_EQ(changes, 1);  // never up for long enough
  now += 1h;
  EXPECT_EQ(monitor.Update(now).size(), 1U);
  changes = 0;
  for (int i = 0; i < 100; ++i) {  // down for a second, up for twenty
    monitor.HandleFeedState(kDown, false, now);
    changes += static_cast<int>(monitor.Update(now).size());
    monitor.HandleFeedState(kDown, true, now + 1s);
    for (int second = 1; second <= 21; ++second) {
      changes += static_cast<int>(monitor.Update(now + second * 1s).size());
    }
    now += 21s;
  }
  EXPECT_LT(changes, 16);
}

TEST(LinkMonitor, ForgetsAllReportsInTheEnd) {
  std::mt19937 random(9);
  LinkMonitor monitor;
  TimePoint now = kStart;
  for (int i = 0; i < 20'000; ++i) {
    const auto link = [&] { return LinkId(static_cast<std::int32_t>(random() % 20)); };
    const auto time = now + Duration(static_cast<std::int64_t>(random() % 2'000'000'000) - 10'000);
    switch (random() % 4) {
      case 0:
        monitor.HandleFeedState(link(), random() % 2 == 0, time);
        break;
      case 1:
        monitor.ReportPathFailure(AgentId(static_cast<std::int32_t>(random() % 50)),
                                  Path(link(), link()), time);
        break;
      case 2:
        monitor.ReportDelivery(Path(link(), link()), time);
        break;
      default:
        for (const auto& change : monitor.Update(time)) {
          ASSERT_EQ(change.down, monitor.IsDown(change.link));
        }
    }
    now += 10ms;
  }
  for (int link = 0; link < 20; ++link) monitor.HandleFeedState(LinkId(link), true, now);
  monitor.Update(now + 10min);
  monitor.Update(now + 30min);
  for (int link = 0; link < 20; ++link) EXPECT_FALSE(monitor.IsDown(LinkId(link)));
  EXPECT_FALSE(monitor.HasPathFailures());
}

}  // namespace
}  // namespace espalier::controller
