#include "controller/routing/phases/phase_search.h"

#include <gtest/gtest.h>

#include "controller/routing/fabric/load.h"

namespace espalier::controller {
namespace {

const Load kLow{1, 1};
const Load kHigh{2, 1};

TEST(PhaseSearchQuality, ComparesLinksBeforePhasesAloneBeforeMoves) {
  const PhaseSearch::Quality best{kLow, 0, {kLow}, 0, 9};
  EXPECT_LT(best, (PhaseSearch::Quality{kHigh, 0, {kLow}, 0, 0}));
  EXPECT_LT(best, (PhaseSearch::Quality{kLow, 1, {kLow}, 0, 0}));
  EXPECT_LT(best, (PhaseSearch::Quality{kLow, 0, {kHigh}, 0, 0}));
  EXPECT_LT(best, (PhaseSearch::Quality{kLow, 0, {kLow}, 1, 0}));
  EXPECT_LT(best, (PhaseSearch::Quality{kLow, 0, {kLow}, 0, 10}));
}

TEST(PhaseSearchQuality, IsWorthManyMovesOnlyForAMaximumOrAPhaseAlone) {
  const PhaseSearch::Quality present{kHigh, 8 * kLoadUnit, {kHigh, kLow}, 2 * kLoadUnit, 10};
  PhaseSearch::Quality other = present;
  other.moved = 1'000;
  EXPECT_FALSE(other.IsWorthItsMoves(present));
  other.excess -= kLoadUnit;
  EXPECT_FALSE(other.IsWorthItsMoves(present));
  other.moved = 26;
  EXPECT_TRUE(other.IsWorthItsMoves(present));
  other.moved = 27;
  EXPECT_FALSE(other.IsWorthItsMoves(present));
  other.alone = {kLow, kLow};
  EXPECT_TRUE(other.IsWorthItsMoves(present));
  other.excess = present.excess + 1;
  EXPECT_FALSE(other.IsWorthItsMoves(present));
  other.max_load = kLow;
  EXPECT_TRUE(other.IsWorthItsMoves(present));
}

TEST(PhaseSearchQuality, IsWorthFewerMoves) {
  const PhaseSearch::Quality present{kLow, 0, {kLow}, 0, 10};
  EXPECT_TRUE((PhaseSearch::Quality{kLow, 0, {kLow}, 0, 9}.IsWorthItsMoves(present)));
  EXPECT_FALSE(present.IsWorthItsMoves(present));
}

}  // namespace
}  // namespace espalier::controller
