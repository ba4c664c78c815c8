// Tests what the options mean for flow arrivals.
#include "controller/settings/options.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

TEST(ChainOptions, LetArrivalsMoveNewFlowsFreelyAndLimitFlowsInProgress) {
  const auto chains = ChainOptions({.moved_bytes_per_start = 77}, 3);
  EXPECT_EQ(chains.max_moves, 64U);
  EXPECT_EQ(chains.max_in_progress_moves, 3U);
  EXPECT_EQ(chains.max_moved_bytes, 77);
}

TEST(ChainOptions, GreedyMovesNoFlow) {
  EXPECT_EQ(ChainOptions({.algorithm = Algorithm::kGreedy}, 3).max_moves, 0U);
}

}  // namespace
}  // namespace espalier::controller
