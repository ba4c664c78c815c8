#include "common/terminal/progress.h"

#include <gtest/gtest.h>

namespace espalier::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// (Standard error is captured in tests, so it is not a terminal.)
TEST(ProgressLine, IsDueAfterASecondAndThenOncePerPause) {
  testing::internal::CaptureStderr();
  const ProgressLine::Clock::time_point begin{};
  ProgressLine line(milliseconds(100), seconds(10), begin);
  EXPECT_FALSE(line.is_on_terminal());
  EXPECT_FALSE(line.IsDue(begin));
  EXPECT_FALSE(line.IsDue(begin + milliseconds(999)));
  EXPECT_TRUE(line.IsDue(begin + seconds(3)));
  line.Show("one");
  EXPECT_FALSE(line.IsDue(begin + milliseconds(12'999)));
  EXPECT_TRUE(line.IsDue(begin + seconds(13)));
  line.Show("two");
  line.Clear();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\ntwo\n");
}

TEST(Progress, IsSilentWhereTheWorkIsShort) {
  testing::internal::CaptureStderr();
  {
    Progress progress("work", 2);
    progress.Next("first");
    progress.Next("second");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace espalier::cli
