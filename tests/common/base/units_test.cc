#include "common/base/units.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

TEST(ParseGbps, IsExactForDecimals) {
  EXPECT_EQ(ParseGbps("100")->value, 100'000'000'000);
  EXPECT_EQ(ParseGbps("12.5")->value, 12'500'000'000);
  EXPECT_EQ(ParseGbps("0.05")->value, 50'000'000);
  EXPECT_EQ(ParseGbps("0.000000001")->value, 1);
  EXPECT_EQ(ParseGbps("0.1")->value, 100'000'000);
}

TEST(ParseGbps, RefusesWhatIsNotAPositiveDecimal) {
  for (const char* text : {"", "0", "0.0", "-1", "+1", "1e3", ".5", "5.", "1.0000000001", "1 ",
                           "0x10", "nan", "9000000001", "99999999999999999999999"}) {
    EXPECT_FALSE(ParseGbps(text).has_value()) << text;
  }
}

TEST(FormatGbps, ReadsBackToTheSameRate) {
  for (const char* text : {"100", "12.5", "0.05", "0.000000001", "9000000000"}) {
    EXPECT_EQ(FormatGbps(*ParseGbps(text)), text);
  }
}

}  // namespace
}  // namespace espalier
