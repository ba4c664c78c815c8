#include "common/terminal/closest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace espalier::cli {
namespace {

TEST(ClosestName, NeedsTheFewestChanges) {
  const std::vector<std::string> names = {"status", "steering", "train", "train-2"};
  EXPECT_EQ(ClosestName("statsu", names), "status");
  EXPECT_EQ(ClosestName("trian", names), "train");
  EXPECT_EQ(ClosestName("steer", names), "steering");
  EXPECT_EQ(ClosestName("train-3", names), "train-2");
}

TEST(ClosestName, IsNoneWhereTooMuchDiffers) {
  const std::vector<std::string> names = {"flows", "ab"};
  EXPECT_EQ(ClosestName("links", names), "");
  EXPECT_EQ(ClosestName("xy", names), "");
  EXPECT_EQ(ClosestName("", names), "");
  EXPECT_EQ(ClosestName("flows", {}), "");
}

}  // namespace
}  // namespace espalier::cli
