#include "controller/prediction/start_assignment.h"

#include <gtest/gtest.h>

#include <random>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

class StartAssignmentTest : public testing::TestWithParam<bool> {
 protected:
  static fabric::TopologySpec Spec(bool is_fat_tree) {
    if (is_fat_tree) return fabric::BuildFatTree({.k = 4}).value();
    return fabric::BuildLeafSpine({.spines = 4, .leaves = 8, .hosts_per_leaf = 4}).value();
  }

  SubflowId AddLive(const PredictedStart& start) {
    const SubflowId subflow =
        assigner_.Add(start.source, start.destination, kLoadUnit / start.subflows);
    assigner_.Start(subflow, options_);
    assigner_.SetInProgress(subflow);
    return subflow;
  }
  PredictedStart Draw() {
    const std::uint32_t leaves = view_.leaf_count();
    const auto source = static_cast<std::uint32_t>(random_() % leaves);
    const auto shift = 1 + static_cast<std::uint32_t>(random_() % (leaves - 1));
    return {source, (source + shift) % leaves, random_() % 4 == 0 ? 2U : 1U};
  }

  std::mt19937 random_{11};
  fabric::Topology topology_ = fabric::Topology::Build(Spec(GetParam())).value();
  fabric::PathTable paths_{topology_};
  FabricView view_{topology_, paths_};
  OnlineAssigner assigner_{view_};
  const OnlineAssigner::Options options_{.max_moves = 64, .max_in_progress_moves = 4};
};

TEST_P(StartAssignmentTest, EqualsAnAssignmentOnArrivalAndLeavesNoTrace) {
  std::vector<SubflowId> subflows;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 6; ++i) subflows.push_back(AddLive(Draw()));
    std::vector<std::int32_t> before;
    for (const SubflowId subflow : subflows) before.push_back(assigner_.PathOf(subflow));
    const std::vector<std::int64_t> loads = assigner_.Loads();
    const std::vector<SubflowId> ending(subflows.begin(), subflows.begin() + round % 4);
    std::vector<PredictedStart> starts;
    for (int i = 0; i < 10; ++i) starts.push_back(Draw());

    const StartAssignment plan = AssignPredictedStarts(assigner_, starts, ending, options_);

    for (std::size_t i = 0; i < subflows.size(); ++i)
      ASSERT_EQ(assigner_.PathOf(subflows[i]), before[i]);
    ASSERT_EQ(assigner_.Loads(), loads);

    // All happens as predicted: the plan and an assignment on arrival give the same maximum load.
    for (const SubflowId subflow : ending) assigner_.Remove(subflow);
    subflows.erase(subflows.begin(), subflows.begin() + round % 4);
    std::vector<SubflowId> fresh;
    for (const PredictedStart& start : starts) {
      for (std::uint32_t n = 0; n < start.subflows; ++n) {
        fresh.push_back(assigner_.Add(start.source, start.destination, kLoadUnit / start.subflows));
      }
    }
    std::vector<std::pair<SubflowId, std::int32_t>> moved;
    for (const OnlineAssigner::Move& move : assigner_.PlaceArrivals(fresh, options_)) {
      if (std::find(fresh.begin(), fresh.end(), move.subflow) == fresh.end())
        moved.emplace_back(move.subflow, move.from);
    }
    const Load fresh_load = assigner_.MaxLoad();
    for (const SubflowId subflow : fresh) assigner_.Place(subflow, kNoPath);
    for (auto move = moved.rbegin(); move != moved.rend(); ++move) {
      if (std::find(fresh.begin(), fresh.end(), move->first) == fresh.end()) {
        assigner_.Place(move->first, move->second);
      }
    }
    for (const OnlineAssigner::Move& move : plan.moves) {
      ASSERT_EQ(assigner_.PathOf(move.subflow), move.from);
      assigner_.Place(move.subflow, move.to);
    }
    ASSERT_EQ(plan.paths.size(), fresh.size());
    for (std::size_t i = 0; i < fresh.size(); ++i) assigner_.Place(fresh[i], plan.paths[i]);
    ASSERT_EQ(assigner_.MaxLoad(), fresh_load) << round;
    for (const SubflowId subflow : fresh) assigner_.Remove(subflow);
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, StartAssignmentTest, testing::Bool());

TEST(PathFingerprint, DistinguishesPathsAndPairsAndAddsUpInAnyOrder) {
  EXPECT_NE(PathFingerprint(1, 2, 3, 1), PathFingerprint(2, 1, 3, 1));
  EXPECT_NE(PathFingerprint(1, 2, 3, 1), PathFingerprint(1, 2, 4, 1));
  EXPECT_NE(PathFingerprint(1, 2, 3, 1), PathFingerprint(1, 2, 3, 2));
  EXPECT_EQ(PathFingerprint(5, 6, 7, 1) + PathFingerprint(1, 2, 3, 1),
            PathFingerprint(1, 2, 3, 1) + PathFingerprint(5, 6, 7, 1));
}

}  // namespace
}  // namespace espalier::controller
