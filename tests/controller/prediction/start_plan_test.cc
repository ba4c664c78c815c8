#include "controller/prediction/start_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

class StartPlanTest : public testing::TestWithParam<bool> {
 protected:
  static fabric::TopologySpec Spec(bool is_fat_tree) {
    if (is_fat_tree) return fabric::BuildFatTree({.k = 4}).value();
    return fabric::BuildLeafSpine({.spines = 4, .leaves = 8, .hosts_per_leaf = 4}).value();
  }

  LivePaths::Way AddLive(const ExpectedStart& start) {
    const LivePaths::Way way = live_.Add(start.source, start.destination, kLoadUnit / start.ways);
    live_.Start(way, options_);
    live_.SetLive(way);
    return way;
  }
  ExpectedStart Draw() {
    const std::uint32_t leaves = view_.leaf_count();
    const auto source = static_cast<std::uint32_t>(random_() % leaves);
    const auto shift = 1 + static_cast<std::uint32_t>(random_() % (leaves - 1));
    return {source, (source + shift) % leaves, random_() % 4 == 0 ? 2U : 1U};
  }

  std::mt19937 random_{11};
  fabric::Topology topology_ = fabric::Topology::Build(Spec(GetParam())).value();
  fabric::PathTable paths_{topology_};
  FabricView view_{topology_, paths_};
  LivePaths live_{view_};
  const LivePaths::Options options_{.max_moves = 64, .max_live_moves = 4};
};

TEST_P(StartPlanTest, IsWhatTheStartsGetAndLeavesNoTrace) {
  std::vector<LivePaths::Way> ways;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 6; ++i) ways.push_back(AddLive(Draw()));
    std::vector<std::int32_t> before;
    for (const LivePaths::Way way : ways) before.push_back(live_.PathOf(way));
    const std::vector<std::int64_t> loads = live_.Loads();
    const std::vector<LivePaths::Way> ending(ways.begin(), ways.begin() + round % 4);
    std::vector<ExpectedStart> starts;
    for (int i = 0; i < 10; ++i) starts.push_back(Draw());

    const StartPlan plan = PlanStarts(live_, starts, ending, options_);

    for (std::size_t i = 0; i < ways.size(); ++i) ASSERT_EQ(live_.PathOf(ways[i]), before[i]);
    ASSERT_EQ(live_.Loads(), loads);

    // It all happens as expected: by the plan, and afresh, the maximum load is the same.
    for (const LivePaths::Way way : ending) live_.Remove(way);
    ways.erase(ways.begin(), ways.begin() + round % 4);
    std::vector<LivePaths::Way> fresh;
    for (const ExpectedStart& start : starts) {
      for (std::uint32_t n = 0; n < start.ways; ++n) {
        fresh.push_back(live_.Add(start.source, start.destination, kLoadUnit / start.ways));
      }
    }
    std::vector<std::pair<LivePaths::Way, std::int32_t>> moved;
    for (const LivePaths::Move& move : live_.StartAll(fresh, options_)) {
      if (std::find(fresh.begin(), fresh.end(), move.way) == fresh.end())
        moved.emplace_back(move.way, move.from);
    }
    const Load fresh_load = live_.MaxLoad();
    for (const LivePaths::Way way : fresh) live_.Place(way, kNoPath);
    for (auto move = moved.rbegin(); move != moved.rend(); ++move) {
      if (std::find(fresh.begin(), fresh.end(), move->first) == fresh.end()) {
        live_.Place(move->first, move->second);
      }
    }
    for (const LivePaths::Move& move : plan.moves) {
      ASSERT_EQ(live_.PathOf(move.way), move.from);
      live_.Place(move.way, move.to);
    }
    ASSERT_EQ(plan.paths.size(), fresh.size());
    for (std::size_t i = 0; i < fresh.size(); ++i) live_.Place(fresh[i], plan.paths[i]);
    ASSERT_EQ(live_.MaxLoad(), fresh_load) << round;
    for (const LivePaths::Way way : fresh) live_.Remove(way);
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, StartPlanTest, testing::Bool());

TEST(PathFingerprint, TellsPathsAndPairsApartAndAddsUpInAnyOrder) {
  EXPECT_NE(PathFingerprint(1, 2, 3, 1), PathFingerprint(2, 1, 3, 1));
  EXPECT_NE(PathFingerprint(1, 2, 3, 1), PathFingerprint(1, 2, 4, 1));
  EXPECT_NE(PathFingerprint(1, 2, 3, 1), PathFingerprint(1, 2, 3, 2));
  EXPECT_EQ(PathFingerprint(5, 6, 7, 1) + PathFingerprint(1, 2, 3, 1),
            PathFingerprint(1, 2, 3, 1) + PathFingerprint(5, 6, 7, 1));
}

}  // namespace
}  // namespace espalier::controller
