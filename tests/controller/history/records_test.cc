#include "controller/history/records.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace espalier::controller {
namespace {

TEST(Records, LoadsAreRoundedUpAndNeverMoreThanATwentieth) {
  for (double load = 0.001; load < 1'500; load *= 1.07) {
    const double read = DecodeLoad(EncodeLoad(load));
    EXPECT_GE(read, load - 1e-9);
    EXPECT_LE(read, std::max(load + 1.0 / 16, load * 1.05));
  }
}

TEST(Records, WholeLoadsBelowEightAreExact) {
  for (int load = 0; load < 8; ++load) EXPECT_EQ(DecodeLoad(EncodeLoad(load)), load);
}

TEST(Records, EachCodeIsItself) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(EncodeLoad(DecodeLoad(static_cast<std::uint8_t>(code))), code);
    EXPECT_EQ(EncodeUse(DecodeUse(static_cast<std::uint8_t>(code))), code);
  }
}

TEST(Records, LittleIsNotNothingAndTooMuchIsTheMost) {
  EXPECT_EQ(EncodeLoad(1e-9), 1);
  EXPECT_EQ(EncodeLoad(1e9), 255);
  EXPECT_EQ(EncodeLoad(-1), 0);
  EXPECT_EQ(EncodeUse(1e-9), 1);
  EXPECT_EQ(EncodeUse(7), 255);
  EXPECT_NEAR(DecodeUse(EncodeUse(0.333)), 0.333, 0.002);
}

}  // namespace
}  // namespace espalier::controller
