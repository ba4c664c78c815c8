// The trial's counts against those of all trains one by one.
#include "controller/link_tests/verdicts/loss_trial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tests/controller/link_tests/verdict_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::DirectedLink;

class Trial : public VerdictFixture {
 protected:
  Trial() : VerdictFixture({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}) {
    lie_ = [this](const TrainOutcome& train) { all_.push_back(train); };
  }

  using Meant = std::function<bool(const TrainOutcome&)>;
  TrainCounts CountsOf(const Meant& is_meant) const {
    TrainCounts counts;
    for (const TrainOutcome& train : all_) {
      if (counts_(train) && is_meant(train)) counts.Add(train.counted, train.IsBad());
    }
    return counts;
  }
  // Compares all that the trial says of each link and each pair.
  void Compare(LossTrial& trial) const {
    for (std::size_t i = 0; i < evidence_.directions(); ++i) {
      const auto first = DirectedLink::FromIndex(i);
      const TrainCounts one = CountsOf([&](const auto& train) { return train.Crosses(first); });
      EXPECT_DOUBLE_EQ(trial.OfOne(first), likelihood_.OfOne(one));
      EXPECT_EQ(trial.Count(first).lost, LostOver(first));
      for (std::size_t j = 0; j < evidence_.directions(); ++j) {
        if (i == j) continue;
        const auto second = DirectedLink::FromIndex(j);
        const auto only_first = CountsOf(
            [&](const auto& train) { return train.Crosses(first) && !train.Crosses(second); });
        const auto only_second = CountsOf(
            [&](const auto& train) { return train.Crosses(second) && !train.Crosses(first); });
        const auto both = CountsOf(
            [&](const auto& train) { return train.Crosses(first) && train.Crosses(second); });
        const double want = both.trains() == 0
                                ? likelihood_.OfOne(only_first) + likelihood_.OfOne(only_second)
                                : likelihood_.OfTwo(only_first, only_second, both);
        EXPECT_NEAR(trial.OfTwo(first, second), want, 1e-9 * std::abs(want) + 1e-9);
        EXPECT_EQ(trial.AreTwins(first, second), only_first.trains() + only_second.trains() == 0);
      }
    }
  }
  std::uint32_t LostOver(DirectedLink link) const {
    std::uint32_t lost = 0;
    for (const TrainOutcome& train : all_) {
      if (counts_(train) && train.Crosses(link)) lost += train.lost;
    }
    return lost;
  }

  const LossLikelihood likelihood_{1e-3};
  const KnownFaults nothing_;
  std::vector<TrainOutcome> all_;
  Meant counts_ = [](const TrainOutcome& train) { return train.counted > 0; };
};

TEST_F(Trial, CountsEachTrainOfEachLinkAndOfEachPair) {
  Lose("leaf0>spine1", 0.1);
  Lose("spine1>leaf2", 0.3);
  Lose("h1>leaf0", 0.05);
  Send(600);
  LossTrial trial(evidence_, {.since = TimePoint{}, .known = &nothing_}, likelihood_);
  Compare(trial);
}

TEST_F(Trial, LeavesOutOtherProtocolsEarlierTrainsKnownFaultsAndRemovedHosts) {
  Lose("leaf0>spine1", 0.2);
  Send(600);
  const TimePoint since = now_ - 4s;
  KnownFaults known;
  known.links[Direction("spine0>leaf1").Index()] = now_ - 2s;
  known.hosts.insert(AgentId(5));
  LossTrial trial(evidence_, {.since = since, .protocol = wire::kProtocolTcp, .known = &known},
                  likelihood_);
  const Meant without_hosts = [&](const TrainOutcome& train) {
    const bool is_explained = train.sender == AgentId(5) || train.receiver == AgentId(5) ||
                              (train.Crosses(Direction("spine0>leaf1")) && train.at <= now_ - 2s);
    return train.counted > 0 && train.at >= since && train.protocol == wire::kProtocolTcp &&
           !is_explained;
  };
  counts_ = without_hosts;
  Compare(trial);
  trial.Remove({AgentId(0), AgentId(3)});
  counts_ = [&](const TrainOutcome& train) {
    const auto is_gone = [](AgentId host) { return host == AgentId(0) || host == AgentId(3); };
    return without_hosts(train) && !is_gone(train.sender) && !is_gone(train.receiver);
  };
  Compare(trial);
}

// With one spine and two leaves, each train over a link up crosses the same link down.
class TrialOfOneSpine : public VerdictFixture {
 protected:
  TrialOfOneSpine() : VerdictFixture({.spines = 1, .leaves = 2, .hosts_per_leaf = 1}) {}
};

TEST_F(TrialOfOneSpine, FindsTwins) {
  Send(20);
  const KnownFaults nothing;
  const LossLikelihood likelihood(1e-3);
  LossTrial trial(evidence_, {.since = TimePoint{}, .known = &nothing}, likelihood);
  EXPECT_TRUE(trial.AreTwins(Direction("leaf0>spine0"), Direction("spine0>leaf1")));
  EXPECT_FALSE(trial.AreTwins(Direction("leaf0>spine0"), Direction("spine0>leaf0")));
}

}  // namespace
}  // namespace espalier::controller
