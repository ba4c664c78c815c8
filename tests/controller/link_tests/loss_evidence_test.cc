#include "controller/link_tests/verdicts/loss_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/link_tests/verdict_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class Evidence : public VerdictFixture {
 protected:
  std::size_t CountOf(const std::string& arrow, TimePoint since = TimePoint{}) const {
    std::size_t count = 0;
    evidence_.ForEach(Direction(arrow), since, [&](const TrainOutcome&) { ++count; });
    return count;
  }
  TrainOutcome Bad(int from, int to, int spine) const {
    TrainOutcome train = Train(from, to, spine, now_);
    train.lost = 1;
    return train;
  }
};

TEST_F(Evidence, IsFoundByEachLinkOfItsPath) {
  evidence_.Add(Train(0, 4, 1, now_));
  for (const char* const link : {"h0>leaf0", "leaf0>spine1", "spine1>leaf1", "leaf1>h4"}) {
    EXPECT_EQ(CountOf(link), 1U) << link;
  }
  for (const char* const link : {"leaf0>h0", "spine1>leaf0", "leaf1>spine1", "leaf0>spine2"}) {
    EXPECT_EQ(CountOf(link), 0U) << link;
  }
}

TEST_F(Evidence, VisitsTrainsSinceATimeAlsoIfTheyCameOutOfOrder) {
  for (const Duration at : {0ms, 900ms, 100ms, 2'000ms, 1'500ms}) {
    evidence_.Add(Train(0, 4, 1, now_ + at));
  }
  EXPECT_EQ(CountOf("leaf0>spine1", now_ + 900ms), 3U);
  EXPECT_EQ(CountOf("leaf0>spine1", now_ + 1'501ms), 1U);
}

TEST_F(Evidence, IsForgottenAfterTwoMinutes) {
  evidence_.Add(Bad(0, 4, 1));
  evidence_.Add(Train(0, 8, 1, now_ + 1s));
  evidence_.Expire(now_ + LossEvidence::kMemory);
  EXPECT_EQ(evidence_.size(), 2U);
  evidence_.Expire(now_ + LossEvidence::kMemory + 1ms);
  EXPECT_EQ(evidence_.size(), 1U);
  EXPECT_EQ(CountOf("spine1>leaf1"), 0U);
  EXPECT_EQ(CountOf("leaf0>spine1"), 1U);
  EXPECT_TRUE(evidence_.Doubtful().empty());
  evidence_.Add(Bad(0, 4, 1));
  EXPECT_EQ(CountOf("leaf0>spine1"), 2U);
}

TEST_F(Evidence, KeepsTheLatestTrainsIfThereAreTooMany) {
  for (std::size_t i = 0; i < LossEvidence::kMostTrains + 10; ++i) evidence_.Add(Bad(0, 4, 1));
  evidence_.Expire(now_);
  EXPECT_EQ(evidence_.size(), LossEvidence::kMostTrains);
  EXPECT_EQ(CountOf("leaf0>spine1"), LossEvidence::kMostTrains);
}

TEST_F(Evidence, OfAPortThatTakesAnotherPathIsForgotten) {
  evidence_.Add(Bad(0, 4, 1));
  TrainOutcome other = Bad(0, 4, 1);
  other.port = 60'000;
  evidence_.Add(other);
  const fabric::DirectedLink uplink = Direction("h0>leaf0");
  const std::vector<std::uint32_t> routes = {other.route};
  evidence_.Forget(uplink, routes, 60'000);
  EXPECT_EQ(CountOf("leaf0>spine1"), 1U);
  evidence_.Forget(uplink, std::vector{other.route + 1}, 50'001);
  EXPECT_EQ(CountOf("leaf0>spine1"), 1U);
  evidence_.Forget(Direction("h1>leaf0"), routes, 50'001);
  EXPECT_EQ(CountOf("leaf0>spine1"), 1U);
  evidence_.Forget(uplink, routes, 50'001);
  EXPECT_EQ(CountOf("leaf0>spine1"), 0U);
  EXPECT_TRUE(evidence_.Doubtful().empty());
}

TEST_F(Evidence, BadAndSilentTrainsMakeTheirLinksDoubtful) {
  evidence_.Add(Train(0, 8, 2, now_));
  EXPECT_TRUE(evidence_.Doubtful().empty());
  evidence_.Add(Bad(0, 4, 1));
  now_ += 1s;
  TrainOutcome silent = Train(0, 4, 3, now_);
  silent.arrived = 0;
  evidence_.Add(silent);
  EXPECT_EQ(evidence_.Doubtful().size(), 6U);
  now_ += LossEvidence::kMemory;
  evidence_.Expire(now_);
  EXPECT_THAT(evidence_.Doubtful(),
              testing::UnorderedElementsAre(Direction("h0>leaf0"), Direction("leaf0>spine3"),
                                            Direction("spine3>leaf1"), Direction("leaf1>h4")));
}

}  // namespace
}  // namespace espalier::controller
