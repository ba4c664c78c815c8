#include "controller/links/link_monitor.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::LinkId;
using Kind = LinkFault::Kind;
using Use = LinkMonitor::Use;

constexpr TimePoint kStart{1h};
const LinkId kLink(2);
const LinkId kOther(3);

TEST(LinkMonitor, ATestTakesALinkOutOfUse) {
  for (const auto& [kind, use] :
       {std::pair(Kind::kLossy, Use::kLossy), std::pair(Kind::kDead, Use::kDown)}) {
    LinkMonitor monitor;
    monitor.HandleFault(kLink, kind, kStart);
    const auto changes = monitor.Update(kStart);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].link, kLink);
    EXPECT_EQ(changes[0].use, use);
    EXPECT_EQ(changes[0].why, "tests");
    EXPECT_EQ(monitor.UseOf(kLink), use);
    EXPECT_EQ(monitor.UseOf(kOther), Use::kInUse);
    EXPECT_TRUE(monitor.Update(kStart + 1s).empty());
    const auto questions = monitor.Questions();
    ASSERT_EQ(questions.size(), 1U);
    EXPECT_EQ(questions[0].kind, kind);
    EXPECT_EQ(questions[0].since, kStart);
  }
}

TEST(LinkMonitor, DeadIsWorseThanLossy) {
  LinkMonitor monitor;
  monitor.HandleFault(kLink, Kind::kLossy, kStart);
  monitor.Update(kStart);
  monitor.HandleFault(kLink, Kind::kDead, kStart + 1s);
  const auto changes = monitor.Update(kStart + 1s);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].use, Use::kDown);
  monitor.HandleFault(kLink, Kind::kLossy, kStart + 2s);
  EXPECT_TRUE(monitor.Update(kStart + 2s).empty());
  EXPECT_EQ(monitor.UseOf(kLink), Use::kDown);
  // Both at once: the worse one counts.
  monitor.HandleFault(kOther, Kind::kDead, kStart + 3s);
  monitor.HandleFault(kOther, Kind::kLossy, kStart + 3s);
  EXPECT_EQ(monitor.Update(kStart + 3s).at(0).use, Use::kDown);
}

TEST(LinkMonitor, AFindingIsForgotten) {
  LinkMonitor monitor;
  monitor.HandleFault(kLink, Kind::kDead, kStart);
  EXPECT_TRUE(monitor.Update(kStart + LinkMonitor::kFaultMemory).empty());
  EXPECT_EQ(monitor.UseOf(kLink), Use::kInUse);
}

TEST(LinkMonitor, ALinkThatTestsTookOutReturnsOnlyByTests) {
  for (const Kind kind : {Kind::kLossy, Kind::kDead}) {
    LinkMonitor monitor;
    monitor.HandleFault(kLink, kind, kStart);
    monitor.Update(kStart);
    monitor.ConfirmAlive(kLink, kStart + 1s);  // within the hold-down
    for (const Duration later : {9'999ms, 10'000ms, 600'000ms, 86'400'000ms}) {
      EXPECT_TRUE(monitor.Update(kStart + later).empty());
    }
    monitor.HandleFeedState(kLink, /*up=*/true, kStart + 25h);
    EXPECT_TRUE(monitor.Update(kStart + 26h).empty()) << "a feed does not see losses";
    monitor.ConfirmAlive(kLink, kStart + 26h);
    const auto changes = monitor.Update(kStart + 26h);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].use, Use::kInUse);
    EXPECT_EQ(changes[0].why, "tests");
  }
}

TEST(LinkMonitor, TheHoldDownDoublesWithEachRelapse) {
  LinkMonitor monitor;
  TimePoint now = kStart;
  for (const Duration hold : {10s, 20s, 40s, 80s, 160s, 320s, 600s, 600s}) {
    monitor.HandleFault(kLink, Kind::kLossy, now);
    ASSERT_EQ(monitor.Update(now).size(), 1U);
    monitor.Update(now + 5s);
    EXPECT_TRUE(monitor.Update(now + hold - 1ms).empty());
    now += hold;
    EXPECT_TRUE(monitor.Update(now).empty()) << "it is due, and awaits a test";
    monitor.ConfirmAlive(kLink, now);
    ASSERT_EQ(monitor.Update(now).size(), 1U);
    now += 6s;
  }
  // After a calm time it begins again.
  now += LinkMonitorOptions().calm;
  monitor.HandleFault(kLink, Kind::kLossy, now);
  ASSERT_EQ(monitor.Update(now).size(), 1U);
  monitor.Update(now + 10s);
  monitor.ConfirmAlive(kLink, now + 10s);
  EXPECT_EQ(monitor.Update(now + 10s).size(), 1U);
}

TEST(LinkMonitor, ARestoredLinkIsDownUntilAReportOrATest) {
  for (const bool is_proof : {true, false}) {
    LinkMonitor monitor;
    monitor.ConfirmAlive(kLink, kStart);  // of what nobody doubts
    EXPECT_TRUE(monitor.Update(kStart).empty());
    monitor.RestoreDown(kLink, kStart);
    EXPECT_EQ(monitor.UseOf(kLink), Use::kDown);
    EXPECT_TRUE(monitor.Update(kStart + 24h).empty()) << "time alone changes nothing";
    ASSERT_EQ(monitor.Questions().size(), 1U);
    const TimePoint then = kStart + 24h;
    if (is_proof) {
      monitor.ConfirmAlive(kLink, then);
    } else {
      monitor.HandleFeedState(kLink, /*up=*/true, then);
    }
    EXPECT_TRUE(monitor.Update(then + 1s).empty()) << "it must stay up first";
    const auto changes = monitor.Update(then + 2s);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].use, Use::kInUse);
  }
}

TEST(LinkMonitor, ARepeatedReportReplacesTheRestoredState) {
  LinkMonitor monitor;
  monitor.RestoreDown(kLink, kStart);
  monitor.HandleFeedState(kLink, /*up=*/false, kStart + 1s);
  EXPECT_TRUE(monitor.Questions().empty());
  monitor.ConfirmAlive(kLink, kStart + 2s);
  EXPECT_TRUE(monitor.Update(kStart + 1h).empty());
  EXPECT_EQ(monitor.UseOf(kLink), Use::kDown);
}

TEST(LinkMonitor, AFeedIsBelievedAtOnceAndItsRestoreAfterAWhile) {
  LinkMonitor monitor;
  monitor.HandleFeedState(kLink, false, kStart);
  ASSERT_EQ(monitor.Update(kStart).size(), 1U);
  monitor.HandleFeedState(kLink, false, kStart + 1s);  // again: nothing new
  EXPECT_TRUE(monitor.Update(kStart + 1h).empty());
  EXPECT_TRUE(monitor.Questions().empty()) << "it is known to be down";
  monitor.HandleFeedState(kLink, true, kStart + 1h);
  EXPECT_TRUE(monitor.Update(kStart + 1h + 1s).empty());
  const auto changes = monitor.Update(kStart + 1h + 2s);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].why, "restored");
}

class AwaitedProof : public testing::Test {
 protected:
  std::vector<LinkMonitor::Change> Update(TimePoint now) {
    return monitor_.Update(now, {.is_failed = {}, .can_be_tested = [](LinkId) { return true; }});
  }
  // A feed reports the link down, and after a minute up. Returns when it is due to be used again.
  TimePoint GoDownAndUp() {
    monitor_.HandleFeedState(kLink, false, kStart);
    EXPECT_EQ(Update(kStart).size(), 1U);
    monitor_.HandleFeedState(kLink, true, kStart + 1min);
    return kStart + 1min + LinkMonitorOptions().restore_after;
  }
  LinkMonitor monitor_;
};

TEST_F(AwaitedProof, ALinkIsUsedAgainOnceTrainsHavePassedIt) {
  const TimePoint due = GoDownAndUp();
  monitor_.ConfirmAlive(kLink, due - 1s);  // too early to count
  EXPECT_TRUE(Update(due).empty());
  EXPECT_EQ(monitor_.UseOf(kLink), Use::kDown);
  EXPECT_EQ(monitor_.Questions().size(), 1U);
  monitor_.ConfirmAlive(kLink, due + 1s);
  const auto changes = Update(due + 1s);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].why, "tests");
}

TEST_F(AwaitedProof, WithoutATestTheFeedIsBelievedAfterAWhile) {
  const TimePoint due = GoDownAndUp();
  EXPECT_TRUE(Update(due).empty());
  EXPECT_TRUE(Update(due + LinkMonitorOptions().proof_wait - 1ms).empty());
  const auto changes = Update(due + LinkMonitorOptions().proof_wait);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].why, "tried");
}

TEST_F(AwaitedProof, OneOfAnEarlierTimeDoesNotCount) {
  const TimePoint due = GoDownAndUp();
  EXPECT_TRUE(Update(due).empty());
  monitor_.ConfirmAlive(kLink, due + 1s);
  monitor_.HandleFeedState(kLink, false, due + 1s);  // before it was used
  EXPECT_TRUE(Update(due + 1s).empty());
  EXPECT_TRUE(monitor_.Questions().empty());
  monitor_.HandleFeedState(kLink, true, due + 2s);
  EXPECT_TRUE(Update(due + 1h).empty());
  EXPECT_EQ(monitor_.UseOf(kLink), Use::kDown);
}

// Twenty links of a fabric in two tiers; of each, a quarter may fall.
class Budgets : public testing::Test {
 protected:
  Budgets() : monitor_({.max_links = 6}, Tiers()) {}
  static std::vector<std::uint32_t> Tiers() {
    std::vector<std::uint32_t> tiers(20, 0);
    std::fill(tiers.begin() + 16, tiers.end(), 1);
    return tiers;
  }
  void Find(int first, int last, TimePoint now, Kind kind = Kind::kLossy) {
    for (int link = first; link <= last; ++link) monitor_.HandleFault(LinkId(link), kind, now);
  }
  void Feed(int first, int last, bool up, TimePoint now) {
    for (int link = first; link <= last; ++link) monitor_.HandleFeedState(LinkId(link), up, now);
  }
  std::size_t OutOfUse() const {
    std::size_t count = 0;
    for (int link = 0; link < 20; ++link) count += monitor_.UseOf(LinkId(link)) != Use::kInUse;
    return count;
  }
  LinkMonitor monitor_;
};

TEST_F(Budgets, TestsTakeOutAQuarterOfATierAndTheRestAwaitsTheOperator) {
  Find(0, 19, kStart);
  EXPECT_EQ(monitor_.Update(kStart).size(), 5U) << "four of the first tier, one of the second";
  EXPECT_EQ(monitor_.AwaitingOperator().size(), 15U);
  Find(0, 19, kStart + 1s);
  EXPECT_TRUE(monitor_.Update(kStart + 1s).empty());
}

TEST_F(Budgets, OfTestsAreFreeOnlyOnceLinksHaveReturned) {
  Find(0, 3, kStart);
  monitor_.Update(kStart);
  const TimePoint later = kStart + 1h;  // the window is over long ago
  Find(4, 7, later);
  EXPECT_TRUE(monitor_.Update(later).empty());
  for (int link = 0; link < 4; ++link) monitor_.ConfirmAlive(LinkId(link), later);
  EXPECT_EQ(monitor_.Update(later).size(), 4U);
  Find(4, 7, later + 1s);
  EXPECT_EQ(monitor_.Update(later + 1s).size(), 4U);
}

TEST_F(Budgets, FeedsNeverWaitForTests) {
  Find(0, 19, kStart, Kind::kDead);
  monitor_.Update(kStart);
  Feed(8, 11, false, kStart);
  EXPECT_EQ(monitor_.Update(kStart).size(), 4U);
  EXPECT_EQ(OutOfUse(), 9U);
  for (int link = 8; link < 12; ++link) EXPECT_EQ(monitor_.UseOf(LinkId(link)), Use::kDown);
}

TEST_F(Budgets, TestsNeverWaitForFeeds) {
  Feed(0, 15, false, kStart);
  EXPECT_EQ(monitor_.Update(kStart).size(), 4U);
  Find(16, 16, kStart);
  EXPECT_EQ(monitor_.Update(kStart).size(), 1U);
  Feed(17, 19, false, kStart);
  EXPECT_EQ(monitor_.Update(kStart).size(), 1U) << "the second tier has a budget of its own";
}

TEST_F(Budgets, ALinkThatGetsWorseDoesNotCountAgain) {
  Find(0, 3, kStart);
  monitor_.Update(kStart);
  Find(0, 3, kStart + 1s, Kind::kDead);
  EXPECT_EQ(monitor_.Update(kStart + 1s).size(), 4U);
  EXPECT_TRUE(monitor_.AwaitingOperator().empty());
}

TEST_F(Budgets, LinksThatTheOperatorHasFailedDoNotCount) {
  Find(0, 3, kStart);
  monitor_.Update(kStart);
  Find(4, 4, kStart);
  const auto is_failed = [](LinkId link) { return link.value() < 2 || link.value() == 4; };
  EXPECT_EQ(monitor_.Update(kStart, {.is_failed = is_failed, .can_be_tested = {}}).size(), 1U);
  Find(5, 6, kStart);
  EXPECT_EQ(monitor_.Update(kStart, {.is_failed = is_failed, .can_be_tested = {}}).size(), 2U);
}

TEST_F(Budgets, AReportThatIsWithdrawnAwaitsTheOperatorNoMore) {
  Feed(0, 15, false, kStart);
  monitor_.Update(kStart);
  EXPECT_EQ(monitor_.AwaitingOperator().size(), 12U);
  Feed(0, 15, true, kStart);
  monitor_.Update(kStart);
  EXPECT_TRUE(monitor_.AwaitingOperator().empty());
}

TEST(LinkMonitor, AFlappingLinkStaysDownLonger) {
  LinkMonitor monitor;
  TimePoint now = kStart;
  int changes = 0;
  for (int i = 0; i < 600; ++i) {  // every second down, then up: for ten minutes
    monitor.HandleFeedState(kLink, i % 2 == 1, now);
    changes += static_cast<int>(monitor.Update(now).size());
    now += 1s;
  }
  EXPECT_EQ(changes, 1);  // never up for long enough
  now += 1h;
  EXPECT_EQ(monitor.Update(now).size(), 1U);
  changes = 0;
  for (int i = 0; i < 100; ++i) {  // down for a second, up for twenty
    monitor.HandleFeedState(kLink, false, now);
    changes += static_cast<int>(monitor.Update(now).size());
    monitor.HandleFeedState(kLink, true, now + 1s);
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
        monitor.HandleFault(link(), random() % 2 == 0 ? Kind::kDead : Kind::kLossy, time);
        break;
      case 2:
        monitor.ConfirmAlive(link(), time);
        break;
      default:
        for (const auto& change : monitor.Update(time)) {
          ASSERT_EQ(change.use, monitor.UseOf(change.link));
        }
    }
    now += 10ms;
  }
  for (int link = 0; link < 20; ++link) monitor.HandleFeedState(LinkId(link), true, now);
  for (int minute = 10; minute <= 40; minute += 10) {
    monitor.Update(now + minute * 1min);
    for (int link = 0; link < 20; ++link) {
      monitor.ConfirmAlive(LinkId(link), now + minute * 1min);
    }
  }
  monitor.Update(now + 1h);
  for (int link = 0; link < 20; ++link) EXPECT_EQ(monitor.UseOf(LinkId(link)), Use::kInUse);
  EXPECT_TRUE(monitor.Questions().empty());
}

}  // namespace
}  // namespace espalier::controller
