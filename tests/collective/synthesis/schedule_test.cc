#include "collective/synthesis/schedules/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace espalier::synthesis {
namespace {

Schedule TwoNodes() {
  return {.collective = Collective::kAllgather,
          .node_count = 2,
          .chunks = 2,
          .steps = 2,
          .reduce_steps = 0,
          .sends = {{0, 0, 1, 1, 0, 2}, {1, 1, 0, 2, 0, 1}, {1, 1, 0, 1, 1, 2}}};
}

TEST(Schedule, IsItselfWhenReversedTwice) {
  const Schedule reversed = Reverse(TwoNodes());
  EXPECT_EQ(reversed.collective, Collective::kReduceScatter);
  EXPECT_EQ(reversed.reduce_steps, 2);
  EXPECT_EQ(reversed.sends[0], (Send{0, 1, 0, 2, 0, 2}));
  const Schedule again = Reverse(reversed);
  EXPECT_EQ(again.collective, Collective::kAllgather);
  EXPECT_EQ(again.reduce_steps, 0);
  EXPECT_EQ(again.sends, TwoNodes().sends);
}

TEST(Schedule, KeepsIntervalsWhenRefined) {
  const auto refined = Refine(TwoNodes(), 3);
  ASSERT_TRUE(refined);
  EXPECT_EQ(refined->chunks, 6);
  EXPECT_EQ(refined->sends[2], (Send{1, 1, 0, 1, 3, 6}));
  const auto too_many = Refine(TwoNodes(), kMaxChunks);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code, ErrorCode::kResourceExhausted);
}

TEST(Schedule, HasACommonNumberOfChunksWhenConcatenated) {
  const auto thirds = Refine(TwoNodes(), 3);
  Schedule reduce = Reverse(TwoNodes());
  reduce.chunks = 4;
  const auto all = Concatenate(reduce, *thirds);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->collective, Collective::kAllreduce);
  EXPECT_EQ(all->chunks, 12);
  EXPECT_EQ(all->steps, 4);
  EXPECT_EQ(all->reduce_steps, 2);
  EXPECT_EQ(all->sends[0], (Send{0, 1, 0, 2, 0, 6}));
  EXPECT_EQ(all->sends[3], (Send{0, 0, 1, 3, 0, 12}));
}

TEST(Schedule, RenamesNodes) {
  const std::vector<std::int32_t> names{1, 0};
  EXPECT_EQ(Rename(TwoNodes(), names).sends[1], (Send{0, 0, 1, 2, 0, 1}));
}

}  // namespace
}  // namespace espalier::synthesis
