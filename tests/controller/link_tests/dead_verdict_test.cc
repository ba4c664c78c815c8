#include "controller/link_tests/verdicts/dead_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/link_tests/verdict_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

// Trains over spine1>leaf1, to h4 to h7, and over spine 2 between the same hosts.
class Dead : public VerdictFixture {
 protected:
  explicit Dead(const fabric::LeafSpineOptions& shape = {}, std::size_t liars = 1)
      : VerdictFixture(shape, liars) {}

  void Add(int from, int to, int spine, bool passes) {
    TrainOutcome train = Train(from, to, spine, now_);
    if (!passes) train.arrived = train.counted = 0;
    evidence_.Add(train);
  }
  // Silent trains over spine 1, and others of the same hosts that pass over other spines.
  void AddSilent(const std::vector<std::pair<int, int>>& hosts, Duration gap = 25ms) {
    for (const auto& [from, to] : hosts) {
      for (int i = 0; i < kOthers; ++i) Add(from, to, 2 + i % 2, i >= silent_others_);
      Add(from, to, 1, false);
      now_ += gap;
    }
  }
  DeadVerdict::Answer Judge(const std::string& arrow = "spine1>leaf1",
                            const KnownFaults& known = {}) const {
    return DeadVerdict(
               evidence_, full_queue_, [this](fabric::DirectedLink) { return liars_; },
               [this](fabric::DirectedLink, fabric::DirectedLink) { return are_series_; })
        .Judge(Direction(arrow), known, now_);
  }

  // Of hosts under three other leaves.
  const std::vector<std::pair<int, int>> kEnough = {{0, 4}, {8, 5}, {12, 6}, {1, 7}, {9, 4}};
  bool are_series_ = false;
  Duration full_queue_{};
  static constexpr int kOthers = 10;  // trains for each one over the link
  int silent_others_ = 0;             // of these
};

// A full queue of a tenth of a second was called a dead link on hosts that reported after seconds.
TEST_F(Dead, ASilenceThatIsOlderThanItLastedProvesNothing) {
  AddSilent(kEnough, 25ms);  // the last train was sent 25 ms ago, the first one 125 ms
  ASSERT_TRUE(Judge().fault);
  now_ += 75ms;
  EXPECT_TRUE(Judge().fault);
  now_ += 1ms;
  EXPECT_FALSE(Judge().fault);
  // News of further silence proves it.
  now_ += 900ms;
  Add(2, 5, 2, true);
  Add(2, 5, 1, false);
  now_ += 800ms;
  EXPECT_TRUE(Judge().fault);
  now_ += 302ms;
  EXPECT_FALSE(Judge().fault);
}

// Trains that meet the same full queue are lost together.
TEST_F(Dead, TrainsThatMetTheSameQueueCountOnce) {
  AddSilent(kEnough, 25ms);
  ASSERT_TRUE(Judge().fault);
  full_queue_ = 25ms;  // all of them met different ones
  EXPECT_TRUE(Judge().fault);
  full_queue_ = 50ms;  // three
  EXPECT_FALSE(Judge().fault);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Judge().fault) << i;
    AddSilent({{0, 4}}, 50ms);
  }
  EXPECT_TRUE(Judge().fault);
}

TEST_F(Dead, ALinkThatNoTrainOfSeveralHostsPassesIsDead) {
  AddSilent(kEnough, 25ms);
  const auto answer = Judge();
  ASSERT_TRUE(answer.fault);
  EXPECT_EQ(answer.fault->kind, LinkFault::Kind::kDead);
  EXPECT_EQ(answer.fault->direction, Direction("spine1>leaf1"));
  EXPECT_EQ(answer.fault->test.lost, 40);
  EXPECT_EQ(answer.fault->test.sent, 40);
  EXPECT_EQ(answer.fault->senders, 5U);
  EXPECT_EQ(answer.fault->receivers, 4U);
  EXPECT_TRUE(answer.rivals.empty());
  for (const char* const other : {"leaf0>spine1", "leaf2>spine1", "spine2>leaf1", "leaf1>spine1"}) {
    EXPECT_FALSE(Judge(other).fault) << other;
  }
}

TEST_F(Dead, FourTrainsOrAMomentAreNotEnough) {
  AddSilent({kEnough.begin(), kEnough.begin() + 4}, 40ms);
  EXPECT_FALSE(Judge().fault);
  AddSilent({{9, 4}});
  EXPECT_TRUE(Judge().fault);
  evidence_ = LossEvidence(topology_.links().size());
  AddSilent(kEnough, 20ms);  // 80 ms from the first to the last
  EXPECT_FALSE(Judge().fault);
}

TEST_F(Dead, OneTrainThatPassesProvesItAlive) {
  AddSilent(kEnough);
  Add(13, 6, 1, true);
  EXPECT_FALSE(Judge().fault);
  now_ += 1ms;
  AddSilent(kEnough);
  EXPECT_TRUE(Judge().fault) << "it has died since";
}

TEST_F(Dead, TrainsOfOneSenderOrToOneReceiverAreNotEnough) {
  AddSilent({{0, 4}, {0, 5}, {0, 6}, {0, 7}, {0, 4}, {0, 5}});
  EXPECT_FALSE(Judge().fault);
  evidence_ = LossEvidence(topology_.links().size());
  AddSilent({{0, 4}, {8, 4}, {12, 4}, {1, 4}, {9, 4}, {13, 4}});
  EXPECT_FALSE(Judge().fault);
}

TEST_F(Dead, ItSaysNothingIfNoOtherPathBetweenTheSameHostsDelivered) {
  for (const auto& [from, to] : kEnough) {
    Add(from, to, 1, false);
    now_ += 200ms;
  }
  EXPECT_FALSE(Judge().fault);
  for (int i = 0; i < kOthers; ++i) {  // to other hosts
    for (const auto& [from, to] : kEnough) Add(from, to == 4 ? 5 : 4, 2, true);
  }
  EXPECT_FALSE(Judge().fault);
  now_ += 500ms;
  for (const auto& [from, to] : kEnough) Add(from, to, 2, true);  // now the same, and in time
  EXPECT_TRUE(Judge().fault);
}

TEST_F(Dead, ALinkThatAllItsTrainsCrossAsWellIsARivalUntilSomeTrainPassesIt) {
  AddSilent({{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 5}, {1, 6}});  // all of them over leaf0>spine1
  auto answer = Judge();
  EXPECT_FALSE(answer.fault);
  EXPECT_EQ(answer.rivals, (std::set{Direction("leaf0>spine1").Index()}));
  EXPECT_EQ(Judge("leaf0>spine1").rivals, (std::set{Direction("spine1>leaf1").Index()}));
  now_ -= 100ms;
  Add(0, 8, 1, true);  // over leaf0>spine1, while the others were silent
  now_ += 100ms;
  answer = Judge();
  EXPECT_TRUE(answer.fault);
  EXPECT_FALSE(Judge("leaf0>spine1").fault);
}

TEST_F(Dead, LinksThatNoPathTellsApartAreBothLeft) {
  are_series_ = true;
  AddSilent({{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 5}, {1, 6}});
  const auto first = Judge("leaf0>spine1").fault;
  const auto second = Judge().fault;
  ASSERT_TRUE(first && second);
  EXPECT_THAT(first->alternatives, testing::ElementsAre(Direction("spine1>leaf1")));
  EXPECT_THAT(second->alternatives, testing::ElementsAre(Direction("leaf0>spine1")));
  EXPECT_THAT(DescribeFault(topology_, *first),
              testing::StartsWith("leaf0>spine1 or spine1>leaf1 (no path distinguishes them) "
                                  "lost 48 of 48 probes"));
}

TEST_F(Dead, ALinkThatOtherTrainsHavePassedIsNoAlternative) {
  are_series_ = true;
  now_ += 50ms;
  Add(0, 8, 1, true);  // over leaf0>spine1
  now_ -= 50ms;
  AddSilent({{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 5}, {1, 6}});
  const auto fault = Judge().fault;
  ASSERT_TRUE(fault);
  EXPECT_THAT(fault->alternatives, testing::IsEmpty());
}

// On a machine that stood still for a moment, a sound link lost 40 of 40 probes, and its siblings
// 181 of 648.
TEST_F(Dead, SilenceIsNoEvidenceWhereOthersAreOftenSilent) {
  silent_others_ = 3;
  AddSilent(kEnough);
  EXPECT_FALSE(Judge().fault);
  for (int i = 0; i < 3; ++i) AddSilent(kEnough);
  EXPECT_TRUE(Judge().fault) << "20 of 20 are too many for chance";
}

TEST_F(Dead, OneLiarTakesNoLinkDown) {
  // h4 denies what comes over spine 1; others send there as well, and some of it is lost too.
  AddSilent({{0, 4}, {8, 4}, {12, 4}, {1, 4}, {9, 4}, {13, 4}, {2, 4}, {10, 5}});
  EXPECT_FALSE(Judge().fault);
  AddSilent({{14, 6}});
  EXPECT_TRUE(Judge().fault) << "two trains are left without it";
}

TEST_F(Dead, TrainsThatAreExplainedDoNotCount) {
  AddSilent(kEnough);
  KnownFaults known;
  known.hosts.insert(AgentId(4));
  EXPECT_FALSE(Judge("spine1>leaf1", known).fault);
  known.hosts.clear();
  known.links[Direction("leaf2>spine1").Index()] = TimePoint::max();
  EXPECT_FALSE(Judge("spine1>leaf1", known).fault);
}

TEST_F(Dead, SilenceIsForgotten) {
  AddSilent(kEnough);
  now_ += DeadVerdict::kMemory;
  EXPECT_FALSE(Judge().fault);
}

class DeadOfSixteen : public Dead {
 protected:
  DeadOfSixteen() : Dead({.hosts_per_leaf = 16}, /*liars=*/2) {}
};

TEST_F(DeadOfSixteen, TwoLiarsTakeNoLinkDown) {
  // h16 and h17 are under leaf 1.
  AddSilent({{0, 16}, {32, 17}, {48, 16}, {1, 17}, {33, 16}, {49, 17}, {2, 16}, {34, 18}});
  EXPECT_FALSE(Judge().fault);
  AddSilent({{50, 19}});
  EXPECT_TRUE(Judge().fault);
}

}  // namespace
}  // namespace espalier::controller
