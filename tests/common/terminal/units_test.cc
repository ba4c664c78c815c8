#include "common/terminal/units.h"

#include <gtest/gtest.h>

namespace espalier::cli {
namespace {

TEST(Units, HaveThreeDigitsAndAPrefix) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1'000), "1.00 kB");
  EXPECT_EQ(FormatBytes(12'345'678), "12.3 MB");
  EXPECT_EQ(FormatBytes(999'600), "1.00 MB");
  EXPECT_EQ(FormatBytes(1.8446744073709552e19), "18.4 EB");
  EXPECT_EQ(FormatRate(9.412e9), "9.41 Gbit/s");
  EXPECT_EQ(FormatRate(0.5), "0.50 bit/s");
}

TEST(Units, OfTime) {
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(0.063826026), "63.8 ms");
  EXPECT_EQ(FormatSeconds(1.604551425), "1.60 s");
  EXPECT_EQ(FormatSeconds(25e-6), "25.0 us");
  EXPECT_EQ(FormatSeconds(150), "2.5 min");
  EXPECT_EQ(FormatSeconds(86'400), "24.0 h");
  EXPECT_EQ(FormatSeconds(864'000), "10.0 d");
}

}  // namespace
}  // namespace espalier::cli
