#include "controller/link_tests/verdicts/link_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/link_tests/verdict_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class Verdict : public VerdictFixture {};

TEST_F(Verdict, NamesNothingOnASoundFabric) {
  Send(20'000, 5ms);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(Verdict, NamesTheOneLossyLinkInEitherDirection) {
  for (const char* const arrow : {"spine1>leaf1", "leaf2>spine3"}) {
    for (const double part : {0.01, 0.02, 0.05, 0.1, 0.3}) {
      SCOPED_TRACE(part);
      evidence_ = LossEvidence(topology_.links().size());
      losses_.clear();
      Lose(arrow, part);
      Send(8'000);
      EXPECT_THAT(Names(), ElementsAre(arrow));
      const LossFinding finding = Judge().begin()->second;
      EXPECT_EQ(finding.kind, LossFinding::Kind::kLink);
      EXPECT_GE(finding.fault.senders, 2U);
      EXPECT_GT(finding.fault.test.lost, 0);
      EXPECT_EQ(finding.fault.siblings.lost, 0);
      EXPECT_FALSE(finding.bad_ports.empty());
    }
  }
}

TEST_F(Verdict, NamesALinkOfTwoThousandOnceItsOwnTrainsAreEnough) {
  Lose("spine1>leaf1", 0.05);
  Send(100);
  EXPECT_THAT(Names(), IsEmpty()) << "about 6 trains have crossed it";
  Send(2'000);
  EXPECT_THAT(Names(), ElementsAre("spine1>leaf1"));
}

TEST_F(Verdict, DoesNotNameALinkThatLosesLessThanHalfAPercent) {
  Lose("spine1>leaf1", 0.003);
  Send(12'000);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(Verdict, NamesTwoLinksOfTwoSpines) {
  Lose("spine1>leaf1", 0.05);
  Lose("leaf3>spine2", 0.03);
  Send(8'000);
  EXPECT_THAT(Names(), ElementsAre("leaf3>spine2", "spine1>leaf1"));
}

TEST_F(Verdict, NamesTwoLinksOnOnePath) {
  Lose("leaf0>spine1", 0.05);
  Lose("spine1>leaf2", 0.05);
  Send(12'000);
  KnownFaults known;
  std::set<std::string> named;
  for (int round = 0; round < 2; ++round) {  // the second one once the first one is known
    for (const std::string& name : Names(known)) {
      named.insert(name);
      known.links[Direction(name).Index()] = TimePoint::max();
    }
  }
  EXPECT_THAT(named, ElementsAre("leaf0>spine1", "spine1>leaf2")) << "and not their spine";
  EXPECT_THAT(Names(known), IsEmpty());
}

TEST_F(Verdict, TrainsThatAKnownFaultExplainsCountUntilThatTime) {
  Lose("spine1>leaf1", 0.05);
  Send(4'000);
  const std::size_t index = Direction("spine1>leaf1").Index();
  KnownFaults known;
  known.links[Direction("leaf0>spine1").Index()] = now_;
  EXPECT_THAT(Names(known), ElementsAre("spine1>leaf1")) << "others still cross it";
  evidence_ = LossEvidence(topology_.links().size());
  Send(4'000);
  known.links = {{index, now_}};  // out of use until now, and in use again
  losses_.clear();
  Send(4'000);
  known.links.erase(index);
  EXPECT_THAT(Names(known), ElementsAre("spine1>leaf1"));
  known.links[index] = now_;
  for (const auto& finding : verdict_.SiblingsOf(Direction("spine1>leaf1"))) {
    EXPECT_FALSE(JudgeLink(finding, known));
  }
  EXPECT_FALSE(JudgeLink(Direction("spine1>leaf1"), known));
}

TEST_F(Verdict, NamesABadSpineAsASwitchAndNoneOfItsLinksAlone) {
  for (int leaf = 0; leaf < 4; ++leaf) {
    Lose("spine1>leaf" + std::to_string(leaf), 0.05);
  }
  Send(8'000);
  EXPECT_THAT(Names(), ElementsAre("spine1"));
  const LossFinding finding = Judge().begin()->second;
  EXPECT_EQ(finding.kind, LossFinding::Kind::kSwitch);
  EXPECT_EQ(finding.links.size(), 4U);
}

TEST_F(Verdict, NamesALossyNicAndNoLink) {
  for (const char* const access : {"h5>leaf1", "leaf1>h5"}) {
    SCOPED_TRACE(access);
    evidence_ = LossEvidence(topology_.links().size());
    losses_.clear();
    Lose(access, 0.1);
    Send(8'000);
    EXPECT_THAT(Names(), ElementsAre("h5"));
    EXPECT_EQ(Judge().begin()->second.kind, LossFinding::Kind::kNic);
    // What a known NIC loses is explained.
    KnownFaults known;
    known.hosts.insert(AgentId(5));
    EXPECT_THAT(Names(known), IsEmpty());
  }
}

TEST_F(Verdict, SaysThatALinkLosesTcpOnly) {
  Lose("spine1>leaf1", 0.05, wire::kProtocolTcp);
  Send(8'000);
  ASSERT_THAT(Names(), ElementsAre("spine1>leaf1"));
  // Of all traffic, it loses half as much; the shortest window with enough says so.
  const LossFinding finding = Judge().begin()->second;
  EXPECT_TRUE(finding.fault.traffic == "TCP" || finding.fault.traffic.empty());
  EXPECT_FALSE(JudgeLink(Direction("spine1>leaf1"))->fault.traffic == "UDP");
}

// All links to the hosts of leaf 1 lose as much, as slow receivers do.
TEST_F(Verdict, SiblingsThatLoseAsMuchRaiseTheBaseline) {
  for (int spine = 0; spine < 4; ++spine) {
    Lose("spine" + std::to_string(spine) + ">leaf1", 0.006);
  }
  Send(24'000, 4ms);
  for (int spine = 0; spine < 4; ++spine) {
    const std::string arrow = "spine" + std::to_string(spine) + ">leaf1";
    EXPECT_GT(SuspicionOf(arrow), LinkVerdict::kCertain) << arrow;
    EXPECT_FALSE(JudgeLink(Direction(arrow))) << arrow;
  }
}

TEST_F(Verdict, OneLyingReceiverAccusesNobody) {
  lie_ = [this](TrainOutcome& train) {
    if (train.receiver == AgentId(5) && train.port == 50'001) Lose(train, 0.3);
  };
  Send(8'000);
  EXPECT_GT(SuspicionOf("spine1>leaf1"), LinkVerdict::kCertain);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(Verdict, OneLyingSenderAccusesNobody) {
  lie_ = [this](TrainOutcome& train) {
    if (train.sender == AgentId(5) && train.port == 50'001) Lose(train, 0.3);
  };
  Send(8'000);
  EXPECT_GT(SuspicionOf("leaf1>spine1"), LinkVerdict::kCertain);
  EXPECT_THAT(Names(), IsEmpty());
}

// With four hosts under a leaf, it stands one liar and not two.
TEST_F(Verdict, TwoLiarsOfFourCanAccuseALinkOfTheirLeaf) {
  lie_ = [this](TrainOutcome& train) {
    const bool lies = train.receiver == AgentId(5) || train.receiver == AgentId(6);
    if (lies && train.port == 50'001) Lose(train, 0.3);
  };
  Send(8'000);
  EXPECT_THAT(Names(), ElementsAre("spine1>leaf1"));
}

TEST_F(Verdict, LossesOfOneSecondOrOfOneSenderAreNotEnough) {
  for (int i = 0; i < 400; ++i, now_ += 2ms) {  // 0.8 s
    TrainOutcome train = Train(i % 4, 4 + i / 4 % 4, i % 3 == 0 ? 1 : 2, now_);
    if (i % 3 == 0) Lose(train, 0.3);
    evidence_.Add(train);
  }
  EXPECT_GT(SuspicionOf("spine1>leaf1"), LinkVerdict::kCertain);
  EXPECT_THAT(Names(), IsEmpty());
  evidence_ = LossEvidence(topology_.links().size());
  for (int i = 0; i < 400; ++i, now_ += 10ms) {
    TrainOutcome train = Train(0, 4 + i % 4, i % 3 == 0 ? 1 : 2, now_);
    if (i % 3 == 0) Lose(train, 0.3);
    evidence_.Add(train);
  }
  EXPECT_GT(SuspicionOf("spine1>leaf1"), LinkVerdict::kCertain);
  EXPECT_THAT(Names(), IsEmpty());
}

class SixteenHosts : public VerdictFixture {
 protected:
  SixteenHosts() : VerdictFixture({.hosts_per_leaf = 16}, /*liars=*/2) {}
  // The first hosts of leaf 0 claim that 30 % over spine 1 are lost.
  void LieOf(int liars) {
    lie_ = [this, liars](TrainOutcome& train) {
      if (train.receiver.Index() < static_cast<std::size_t>(liars) && train.port == 50'001) {
        Lose(train, 0.3);
      }
    };
  }
};

TEST_F(SixteenHosts, TwoLiarsAccuseNobody) {
  LieOf(2);
  Send(12'000, 8ms);
  EXPECT_GT(SuspicionOf("spine1>leaf0"), LinkVerdict::kCertain);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(SixteenHosts, MoreLiarsThanItStandsDo) {
  LieOf(6);
  Send(12'000, 8ms);
  EXPECT_THAT(Names(), ElementsAre("spine1>leaf0"));
}

class TwoLeaves : public VerdictFixture {
 protected:
  TwoLeaves() : VerdictFixture({.spines = 4, .leaves = 2}) {}
};

TEST_F(TwoLeaves, LinksInSeriesAreUndecided) {
  Lose("leaf0>spine1", 0.05);
  Send(4'000);
  EXPECT_THAT(Names(), ElementsAre("leaf0>spine1|spine1>leaf1"));
  EXPECT_EQ(Judge().begin()->second.kind, LossFinding::Kind::kUndecided);
}

class ThirtyTwo : public VerdictFixture {
 protected:
  ThirtyTwo() : VerdictFixture({.spines = 8, .leaves = 8, .hosts_per_leaf = 8}) {}
};

TEST_F(ThirtyTwo, SpinesOneLossyLinkIsNamed) {
  Lose("spine7>leaf3", 0.05);
  Send(16'000, 5ms);
  EXPECT_THAT(Names(), ElementsAre("spine7>leaf3"));
}

TEST_F(Verdict, SiblingsOfALinkJoinTheSameLeaf) {
  std::vector<std::string> names;
  for (const auto link : verdict_.SiblingsOf(Direction("spine1>leaf2"))) {
    names.push_back(ArrowOf(topology_, link));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("spine0>leaf2", "spine2>leaf2", "spine3>leaf2"));
}

TEST_F(Verdict, AcquitsOfOnePercentByAThousandPacketsSinceTheLastLoss) {
  const auto link = Direction("spine1>leaf1");
  TrainOutcome bad = Train(0, 4, 1, now_);
  bad.lost = 1;
  evidence_.Add(bad);
  const auto good = [&](int trains) {
    for (int i = 0; i < trains; ++i) {
      now_ += 1ms;
      evidence_.Add(Train(i % 4, 4 + i / 4 % 4, 1, now_));
    }
    return verdict_.AcquittalOf(link, TimePoint{});
  };
  const auto few = good(100);
  EXPECT_EQ(few.trains, 100U);
  EXPECT_EQ(few.senders, 4U);
  EXPECT_EQ(few.receivers, 4U);
  EXPECT_GT(few.one_percent, -LinkVerdict::kCertain);
  EXPECT_LT(good(120).one_percent, -LinkVerdict::kCertain);
  TrainOutcome silent = Train(0, 4, 1, now_ += 1ms);
  silent.arrived = silent.counted = 0;
  evidence_.Add(silent);
  EXPECT_EQ(good(3).trains, 3U) << "since the silent one";
}

}  // namespace
}  // namespace espalier::controller
