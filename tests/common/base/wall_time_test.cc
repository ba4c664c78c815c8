#include "common/base/time/wall_time.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kNow{1'795'253'938s + 907'654us};

TEST(WallTime, IsWrittenInUtcToTheMillisecond) {
  EXPECT_EQ(FormatWallTime(kNow), "2026-11-21T09:38:58.907Z");
  EXPECT_EQ(FormatWallTime(WallTime{}), "1970-01-01T00:00:00.000Z");
}

TEST(WallTime, IsReadAsADateOrAPeriodFromNow) {
  EXPECT_EQ(ParseWallTime("2026-11-21T09:38Z", kNow).value(), WallTime(1'795'253'880s));
  EXPECT_EQ(ParseWallTime("2024-02-29T23:59:59Z", kNow).value(), WallTime(1'709'251'199s));
  EXPECT_EQ(ParseWallTime(FormatWallTime(kNow), kNow).value(), kNow - 654us);
  EXPECT_EQ(ParseWallTime("+90s", kNow).value(), kNow + 90s);
  EXPECT_EQ(ParseWallTime("+30m", kNow).value(), kNow + 30min);
  EXPECT_EQ(ParseWallTime("+2h", kNow).value(), kNow + 2h);
  EXPECT_EQ(ParseWallTime("2h", kNow).value(), kNow + 2h);
  EXPECT_EQ(ParseWallTime("+3d", kNow).value(), kNow + 72h);
}

TEST(WallTime, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "+", "+h", "+2", "+-2h", "+2w", "+4000d", "+99999999999h", "tomorrow", "2026-11-21",
        "2026-11-21T09:38", "2026-11-21 09:38Z", "2026-02-29T00:00Z", "2026-13-01T00:00Z",
        "2026-11-21T24:00Z", "2026-11-21T09:60Z", "2026-11-21T09:38:60Z", "2026-11-21T09:38:58.90Z",
        "2026-11-21T09:38.907Z"}) {
    const auto parsed = ParseWallTime(text, kNow);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace espalier
