// Tests whole controllers whose hosts test the links of a fabric of 4 spines, 4 leaves and 16
// hosts, under virtual time.
#include "controller/link_tests/link_tester.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/link_tests/tested_cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kForged = "espalier_controller_test_trains_forged_total";
constexpr const char* kOutcomes = "espalier_controller_test_outcomes_total";

TEST(LinkTester, FindsNothingOnASoundFabric) {
  TestedCluster tested;
  const std::int64_t before = tested.cluster().CounterValue(kOutcomes);
  tested.cluster().Advance(3min);
  // 16 hosts send 3.75 trains a second each.
  const std::int64_t outcomes = tested.cluster().CounterValue(kOutcomes) - before;
  EXPECT_GT(outcomes, 180 * 50);
  EXPECT_LT(outcomes, 180 * 70);
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
  EXPECT_THAT(tested.cluster().controller().links().health.tester().Doubts(), IsEmpty());
  EXPECT_EQ(tested.cluster().CounterValue(kForged), 0);
  EXPECT_EQ(tested.cluster().CounterValue("espalier_controller_test_trains_unreported_total"), 0);
  EXPECT_EQ(tested.urgent_orders(), 0);
}

struct Loss {
  double part;
  Duration limit;
};

class Lossy : public testing::TestWithParam<Loss> {};

TEST_P(Lossy, LinksAreNamedInTimeAndNoOther) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    for (const char* const arrow : {"spine1>leaf1", "leaf2>spine3"}) {
      SCOPED_TRACE(testing::Message() << arrow << " seed " << seed);
      TestedCluster tested(seed);
      tested.Lose(arrow, {.probability = GetParam().part});
      const double seconds =
          tested.SecondsUntil([&] { return !tested.OutOfUse().empty(); }, 3 * GetParam().limit);
      EXPECT_LT(seconds, SecondsOf(GetParam().limit));
      EXPECT_THAT(tested.Faulty(), ElementsAre(arrow));
      EXPECT_THAT(tested.LastOf("link_lossy"), HasSubstr(std::string(arrow) + " lost "));
      tested.cluster().Advance(20s);
      EXPECT_THAT(tested.Faulty(), ElementsAre(arrow));
      EXPECT_EQ(tested.CountEvents("link_lossy"), 1);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Aims, Lossy,
                         testing::Values(Loss{0.1, 10s}, Loss{0.05, 10s}, Loss{0.02, 15s},
                                         Loss{0.01, 30s}));

TEST(LinkTester, NamesALinkThatLosesTcpOnly) {
  TestedCluster tested;
  tested.Lose("spine1>leaf1", {.probability = 0.05, .protocol = wire::kProtocolTcp});
  EXPECT_LT(tested.SecondsUntil([&] { return !tested.OutOfUse().empty(); }, 20s), 15);
  EXPECT_THAT(tested.Faulty(), ElementsAre("spine1>leaf1"));
  EXPECT_THAT(tested.OutOfUse(), ElementsAre("leaf1--spine1 DRAINED"));
}

TEST(LinkTester, ADeadLinkFallsWithinASecondAfterAHostReportsIt) {
  TestedCluster tested;
  tested.cluster().Open(0, {{.id = 1, .to = 4}});
  tested.cluster().Settle();
  tested.Kill("leaf1--spine1");
  tested.ReportDead(0, 1, wire::PathBasis::kProbed);
  EXPECT_LT(tested.SecondsUntil([&] { return !tested.OutOfUse().empty(); }, 5s), 1);
  tested.cluster().Advance(10s);
  EXPECT_THAT(tested.OutOfUse(), ElementsAre("leaf1--spine1 DOWN"));
}

TEST(LinkTester, ADeadLinkFallsWithinSecondsIfNobodyReportsIt) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    TestedCluster tested(seed);
    tested.Kill("leaf1--spine1");
    EXPECT_LT(tested.SecondsUntil([&] { return !tested.OutOfUse().empty(); }, 10s), 4);
    tested.cluster().Advance(20s);
    EXPECT_THAT(tested.OutOfUse(), ElementsAre("leaf1--spine1 DOWN"));
  }
}

TEST(LinkTester, OneDirectionThatIsDeadIsFoundAsSuch) {
  TestedCluster tested;
  tested.Lose("spine1>leaf1", {.probability = 1});
  EXPECT_LT(tested.SecondsUntil([&] { return !tested.OutOfUse().empty(); }, 10s), 4);
  EXPECT_THAT(tested.OutOfUse(), ElementsAre("leaf1--spine1 DOWN"));
  EXPECT_THAT(tested.Faulty(), ElementsAre("spine1>leaf1"));
}

// In a fabric of two leaves all paths over a link to a spine also cross its other link.
TEST(LinkTester, OfTwoLeavesBothLinksOfASpineAreNamed) {
  TestedCluster tested(1, {.spines = 4, .leaves = 2, .hosts_per_leaf = 2});
  tested.Lose("leaf1>spine2", {.probability = 1});
  EXPECT_LT(tested.SecondsUntil([&] { return !tested.OutOfUse().empty(); }, 20s), 10);
  EXPECT_THAT(tested.OutOfUse(), ElementsAre("leaf0--spine2 DOWN", "leaf1--spine2 DOWN"));
  EXPECT_THAT(tested.LastOf("link_detected_down"), HasSubstr("no path distinguishes them) lost "));
}

// If all of its links but two are out of use, these two lead only to each other.
TEST(LinkTester, ADeadSpineIsLeftWithinTwoSecondsAndNothingElse) {
  for (const bool is_reported : {true, false}) {
    SCOPED_TRACE(is_reported);
    TestedCluster tested;
    for (const int host : {0, 5, 10, 15}) {
      tested.cluster().Open(host, {{.id = 1, .to = (host + 4) % 16}});
    }
    tested.cluster().Settle();
    tested.cluster().dark_spines = {1};
    if (is_reported) {
      for (const int host : {0, 5, 10, 15}) tested.ReportDead(host, 1, wire::PathBasis::kProbed);
    }
    const auto all = [&] { return tested.OutOfUse().size() == 4; };
    EXPECT_LT(tested.SecondsUntil(all, 20s), is_reported ? 2 : 6);
    tested.cluster().Advance(20s);
    EXPECT_EQ(tested.OutOfUse().size(), 4U);
    for (const std::string& link : tested.OutOfUse()) EXPECT_THAT(link, HasSubstr("--spine1 DOWN"));
  }
}

TEST(LinkTester, AHostThatIsCutOffTakesNoLinkDown) {
  TestedCluster tested;
  for (const char* const access : {"h5>leaf1", "leaf1>h5"}) {
    tested.Lose(access, {.probability = 1});
    tested.cluster().Advance(1min);
    EXPECT_THAT(tested.OutOfUse(), IsEmpty());
  }
}

TEST(LinkTester, ALossyNicIsNamedAndNoLink) {
  TestedCluster tested;
  tested.Lose("leaf1>h5", {.probability = 0.1});
  tested.cluster().Advance(1min);
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
  EXPECT_THAT(tested.LastOf("nic_lossy"), HasSubstr("nic=h5"));
  EXPECT_THAT(tested.cluster().controller().links().health.tester().Doubts(),
              testing::Contains(HasSubstr("NIC h5")));
}

// Receivers deny what they received; senders keep back what they claim to have sent.
TEST(LinkTester, OneLyingHostTakesNothingOutOfUse) {
  for (const bool is_sender : {false, true}) {
    for (const double part : {0.3, 1.0}) {
      SCOPED_TRACE(testing::Message() << (is_sender ? "sender " : "receiver ") << part);
      TestedCluster tested;
      tested.denied = [&](const TestedCluster::Known& train) {
        return train.spine == 1 && (is_sender ? train.from : train.to) == 5 ? part : 0.0;
      };
      tested.cluster().Advance(1min);
      EXPECT_THAT(tested.OutOfUse(), IsEmpty());
    }
  }
}

TEST(LinkTester, AReceiverThatClaimsWhatDidNotArriveHidesNothing) {
  TestedCluster tested;
  tested.hosts().forge = [](int host, wire::TrainReport& report) {
    if (host != 5) return;
    for (wire::ReceivedTrain& train : report.received) {
      train.arrived_mask = 0xFF;
      train.delays_us.assign(8, 20);
    }
  };
  tested.Lose("spine1>leaf1", {.probability = 0.1});
  EXPECT_LT(tested.SecondsUntil([&] { return !tested.OutOfUse().empty(); }, 1min), 30);
  tested.cluster().Advance(20s);
  EXPECT_THAT(tested.Faulty(), ElementsAre("spine1>leaf1"));
  EXPECT_GT(tested.cluster().CounterValue(kForged), 0);
}

// Four hosts of a leaf stand one liar. Two can accuse links of their own leaf, within the budget.
TEST(LinkTester, TwoLiarsOfFourReachLinksOfTheirLeafOnly) {
  TestedCluster tested;
  tested.denied = [](const TestedCluster::Known& train) {
    const bool lies = train.to == 4 || train.to == 5 || train.from == 4 || train.from == 5;
    return lies && train.spine < 2 ? 0.4 : 0.0;
  };
  tested.cluster().Advance(3min);
  EXPECT_LE(tested.OutOfUse().size(), 4U);
  for (const std::string& link : tested.OutOfUse()) EXPECT_THAT(link, HasSubstr("leaf1--"));
}

// A turn inspects some 50,000 trains, a step of a verdict may exceed that, and each report of a bad
// train inspects those over its links.
TEST(LinkTester, LiarsMakeNoTurnLong) {
  TestedCluster tested;
  tested.denied = [](const TestedCluster::Known& train) {
    return (train.to == 4 || train.to == 5) && train.spine < 2 ? 0.4 : 0.0;
  };
  std::int64_t inspected = 0;
  std::int64_t most = 0;
  for (int turn = 0; turn < 600; ++turn) {
    tested.cluster().Advance(100ms);
    const std::int64_t now =
        tested.cluster().CounterValue("espalier_controller_test_trains_inspected_total");
    most = std::max(most, now - inspected);
    inspected = now;
  }
  EXPECT_GT(most, 10'000) << "the liars made no work";
  EXPECT_LT(most, 200'000);
}

TEST(LinkTester, AHealedLinkReturnsWithoutFlapping) {
  TestedCluster tested;
  tested.Lose("spine1>leaf1", {.probability = 0.1});
  tested.cluster().Advance(15s);
  ASSERT_THAT(tested.OutOfUse(), ElementsAre("leaf1--spine1 DRAINED"));
  tested.cluster().Advance(1min);
  EXPECT_THAT(tested.OutOfUse(), ElementsAre("leaf1--spine1 DRAINED")) << "it is lossy still";
  tested.Lose("spine1>leaf1", {});
  EXPECT_LT(tested.SecondsUntil([&] { return tested.OutOfUse().empty(); }, 3min), 90);
  EXPECT_THAT(tested.LastOf("link_recovered"), HasSubstr("why=tests"));
  tested.cluster().Advance(5min);
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
  EXPECT_EQ(tested.CountEvents("link_lossy"), 1);
}

TEST(LinkTester, ALinkThatWasDeadReturnsOnceTrainsPassIt) {
  TestedCluster tested;
  tested.Kill("leaf1--spine1");
  tested.cluster().Advance(1min);
  ASSERT_THAT(tested.OutOfUse(), ElementsAre("leaf1--spine1 DOWN"));
  tested.Kill("leaf1--spine1", 0);
  EXPECT_LT(tested.SecondsUntil([&] { return tested.OutOfUse().empty(); }, 2min), 60);
  tested.cluster().Advance(3min);
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
  EXPECT_EQ(tested.CountEvents("link_detected_down"), 1);
}

// Trains do not hold back a link that an operator has failed, and returns.
TEST(LinkTester, ALinkThatAnOperatorRestoresIsUsedAtOnce) {
  TestedCluster tested;
  const auto change = [&](IntentAction action) {
    EXPECT_TRUE(tested.cluster().ChangeLink("leaf1--spine1", action));
  };
  change(IntentAction::kFail);
  tested.Kill("leaf1--spine1");
  tested.cluster().Advance(20s);
  EXPECT_THAT(tested.OutOfUse(), ElementsAre("leaf1--spine1 DOWN"));
  EXPECT_EQ(tested.CountEvents("link_detected_down"), 0);
  tested.Kill("leaf1--spine1", 0);
  change(IntentAction::kRestore);
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
  tested.cluster().Advance(20s);
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
  change(IntentAction::kFail);
  tested.Kill("leaf1--spine1");
  tested.cluster().Advance(20s);
  change(IntentAction::kRestore);
  EXPECT_LT(tested.SecondsUntil([&] { return !tested.OutOfUse().empty(); }, 20s), 5)
      << "it is dead still";
  EXPECT_EQ(tested.CountEvents("link_detected_down"), 1);
}

TEST(LinkTester, WhatProgramsClaimTestsNothing) {
  TestedCluster tested;
  for (int host = 0; host < 16; ++host) {
    tested.cluster().Open(host, {{.id = 1, .to = (host + 4) % 16}});
  }
  tested.cluster().Settle();
  for (int i = 0; i < 20; ++i) {
    for (int host = 0; host < 16; ++host) {
      tested.ReportDead(host, 1, wire::PathBasis::kClaimed);
      tested.Report(host, {.flow = wire::LocalFlowId(1), .path_id = 1, .retries = 1'000});
    }
    tested.cluster().Advance(1s);
  }
  EXPECT_EQ(tested.urgent_orders(), 0);
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
  EXPECT_THAT(tested.cluster().controller().links().health.tester().Doubts(), IsEmpty());
}

TEST(LinkTester, WhatAllHostsReportTakesNothingOutOfUseIfTrainsPass) {
  TestedCluster tested;
  for (int host = 0; host < 16; ++host) {
    tested.cluster().Open(host, {{.id = 1, .to = (host + 4) % 16}});
  }
  tested.cluster().Settle();
  for (int i = 0; i < 20; ++i) {
    for (int host = 0; host < 16; ++host) tested.ReportDead(host, 1, wire::PathBasis::kProbed);
    tested.cluster().Advance(1s);
  }
  EXPECT_GT(tested.urgent_orders(), 0);
  EXPECT_GT(tested.CountEvents("flow_path_dead"), 0);
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
}

TEST(LinkTester, RepetitionsThatNothingExplainsAreADoubtAfterTenSeconds) {
  TestedCluster tested;
  tested.cluster().Open(0, {{.id = 1, .to = 4}});
  tested.cluster().Settle();
  const auto doubts = [&] {
    return tested.cluster().controller().links().health.tester().Doubts();
  };
  const auto repeat = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      tested.Report(0, {.flow = wire::LocalFlowId(1),
                        .path_id = 1,
                        .retries = 3,
                        .basis = wire::PathBasis::kKernel});
      tested.cluster().Advance(1s);
    }
  };
  repeat(10);
  EXPECT_THAT(doubts(), IsEmpty());
  repeat(20);
  EXPECT_THAT(doubts(), testing::Contains(HasSubstr("flows of 1 host repeat packets")));
  EXPECT_THAT(tested.OutOfUse(), IsEmpty());
}

TEST(LinkTester, ARestartedControllerFindsALossyLinkAnew) {
  TestedCluster tested;
  tested.Lose("spine1>leaf1", {.probability = 0.1});
  tested.cluster().Advance(15s);
  ASSERT_THAT(tested.Faulty(), ElementsAre("spine1>leaf1"));
  tested.cluster().RestartController();
  for (int host = 0; host < 16; ++host) {
    tested.hosts().Forget(host);
    tested.cluster().host(host).instance = 0;
    tested.cluster().Connect(host);
  }
  EXPECT_THAT(tested.OutOfUse(), IsEmpty()) << "only reports of feeds are stored";
  tested.cluster().Advance(25s);
  EXPECT_THAT(tested.Faulty(), ElementsAre("spine1>leaf1"));
  EXPECT_EQ(tested.cluster().CounterValue(kForged), 0);
}

}  // namespace
}  // namespace espalier::controller
