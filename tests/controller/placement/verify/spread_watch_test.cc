// Loads that stay above what is possible, with phases of jobs and without.
#include "controller/placement/verify/spread_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "controller/placement/loads/load_summary.h"
#include "tests/controller/placement/arrivals/bursts_fixture.h"
#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

std::vector<std::string> TextsOf(Cluster& cluster, const std::string& kind) {
  std::vector<std::string> texts;
  for (const HistoryEvent& event : cluster.state().history.Since(0, 10'000)) {
    if (event.kind == kind) texts.push_back(event.text);
  }
  return texts;
}

bool IsDegraded(Cluster& cluster) {
  const auto health = HealthOf(cluster.state(), CountReach(cluster.state()), 0, {});
  return std::ranges::any_of(health.Reasons(), [](const std::string& reason) {
    return reason.find("carries 2 flows, where 1 are possible") != std::string::npos;
  });
}

class SpreadWatchTest : public Corner {};

TEST_F(SpreadWatchTest, SpeaksOfALoadThatStaysAboveWhatIsPossibleUntilItIsLowered) {
  Build({.moves_per_start = 0});
  Open(0, {.id = 2, .to = 3});
  ASSERT_EQ(Summarize(cluster_->state()).max_load, (Load{2, 1}));
  cluster_->Advance(SpreadWatch::kLasts - 2s);
  EXPECT_TRUE(TextsOf(*cluster_, "load_above_possible").empty());
  cluster_->Advance(5s);
  const auto texts = TextsOf(*cluster_, "load_above_possible");
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0],
            "max_load=2 possible=1 when=all_open_flows_send remedy=\"espalier recompute\"");
  EXPECT_TRUE(IsDegraded(*cluster_));
  cluster_->Advance(60s);
  EXPECT_EQ(TextsOf(*cluster_, "load_above_possible").size(), 1U);
  ASSERT_TRUE(cluster_->Recompute().has_value());
  cluster_->Advance(3s);
  EXPECT_EQ(TextsOf(*cluster_, "load_as_possible").size(), 1U);
  EXPECT_FALSE(IsDegraded(*cluster_));
}

// The bound knows how many flows there are at each leaf, and not that two of them cannot move.
TEST_F(SpreadWatchTest, SaysNothingOfALoadThatNoRecomputationLowers) {
  Build({.moves_per_start = 0}, /*movable=*/false);
  cluster_->End(0, 1);
  Open(0, {.id = 2, .to = 1, .movable = false});
  ASSERT_EQ(cluster_->AppliedSpine(0, 2, 1), 0);
  Open(0, {.id = 3, .to = 3});
  cluster_->Advance(60s);
  const LoadSummary loads = Summarize(cluster_->state());
  ASSERT_EQ(loads.max_load, (Load{2, 1}));
  ASSERT_LT(loads.lower_bound, loads.max_load);
  EXPECT_TRUE(TextsOf(*cluster_, "load_above_possible").empty());
}

// No port of host 2 takes the other spine, so that moving a flow there would lower nothing.
TEST_F(SpreadWatchTest, SaysNothingOfALoadThatNeedsPathsWithoutPorts) {
  only_spine_1_ = true;
  Build({.moves_per_start = 0});
  Open(2, {.id = 3, .to = 0});
  cluster_->Advance(60s);
  const LoadSummary loads = Summarize(cluster_->state());
  ASSERT_EQ(loads.max_load, (Load{2, 1}));
  ASSERT_LT(loads.lower_bound, loads.max_load);
  EXPECT_TRUE(TextsOf(*cluster_, "load_above_possible").empty());
}

class SpreadOfPhases : public BurstsTest {
 protected:
  SpreadOfPhases() : BurstsTest({.moves_per_start = 0}) {}
};

TEST_F(SpreadOfPhases, SpeaksOfTheBusiestPhaseWhereTheyAreKnown) {
  OpenConnections();
  RunPeriods(20);
  ASSERT_TRUE(Summarize(cluster_.state()).are_phases_known);
  EXPECT_TRUE(TextsOf(cluster_, "load_above_possible").empty() ||
              TextsOf(cluster_, "load_as_possible").size() == 1);
  const std::size_t before = TextsOf(cluster_, "load_above_possible").size();
  OpenTwoOnOneSpine();
  RunPeriods(12);  // it lasts, whatever sends at the moment
  const auto texts = TextsOf(cluster_, "load_above_possible");
  ASSERT_EQ(texts.size(), before + 1);
  EXPECT_EQ(texts.back(),
            "max_load=2 possible=1 when=in_the_busiest_phases remedy=\"espalier recompute\"");
  EXPECT_TRUE(IsDegraded(cluster_));
  ASSERT_TRUE(cluster_.Recompute().has_value());
  RunPeriods(3);
  EXPECT_FALSE(IsDegraded(cluster_));
}

}  // namespace
}  // namespace espalier::controller
