#include "controller/routing/phases/phase_search.h"

#include <gtest/gtest.h>

#include "controller/routing/fabric/load.h"

namespace espalier::controller {
namespace {

const Load kOne{1, 1};
const Load kTwo{2, 1};

TEST(PhaseSearchQuality, ComparesLinksBeforePhasesAloneBeforeMoves) {
  const PhaseSearch::Quality best{kOne, 0, {kOne}, 0, 9};
  EXPECT_LT(best, (PhaseSearch::Quality{kTwo, 0, {kOne}, 0, 0}));
  EXPECT_LT(best, (PhaseSearch::Quality{kOne, 1, {kOne}, 0, 0}));
  EXPECT_LT(best, (PhaseSearch::Quality{kOne, 0, {kTwo}, 0, 0}));
  EXPECT_LT(best, (PhaseSearch::Quality{kOne, 0, {kOne}, 1, 0}));
  EXPECT_LT(best, (PhaseSearch::Quality{kOne, 0, {kOne}, 0, 10}));
}

TEST(PhaseSearchQuality, IsWorthManyMovesOnlyForAMaximumOrAPhaseAlone) {
  const PhaseSearch::Quality present{kTwo, 8 * kLoadUnit, {kTwo, kOne}, 2 * kLoadUnit, 10};
  PhaseSearch::Quality other = present;
  other.moved = 1'000;
  EXPECT_FALSE(other.IsWorthItsMoves(present));
  other.excess -= kLoadUnit;
  EXPECT_FALSE(other.IsWorthItsMoves(present));
  other.moved = 26;
  EXPECT_TRUE(other.IsWorthItsMoves(present));
  other.moved = 27;
  EXPECT_FALSE(other.IsWorthItsMoves(present));
  other.alone = {kOne, kOne};
  EXPECT_TRUE(other.IsWorthItsMoves(present));
  other.excess = present.excess + 1;
  EXPECT_FALSE(other.IsWorthItsMoves(present));
  other.max_load = kOne;
  EXPECT_TRUE(other.IsWorthItsMoves(present));
}

TEST(PhaseSearchQuality, IsWorthFewerMoves) {
  const PhaseSearch::Quality present{kOne, 0, {kOne}, 0, 10};
  EXPECT_TRUE((PhaseSearch::Quality{kOne, 0, {kOne}, 0, 9}.IsWorthItsMoves(present)));
  EXPECT_FALSE(present.IsWorthItsMoves(present));
}

}  // namespace
}  // namespace espalier::controller
