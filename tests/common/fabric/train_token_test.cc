#include "common/fabric/ecmp/train_token.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::fabric {
namespace {

TEST(TrainToken, DependsOnKeyNumberAndIndex) {
  const std::string key = "0123456789abcdef";
  const std::uint64_t token = TrainToken(key, 7, 1);
  EXPECT_EQ(token, TrainToken(key, 7, 1));
  EXPECT_NE(token, TrainToken(key, 7, 2));
  EXPECT_NE(token, TrainToken(key, 8, 1));
  EXPECT_NE(token, TrainToken("0123456789abcdeF", 7, 1));
  EXPECT_NE(token, TrainToken("1123456789abcdef", 7, 1));
}

}  // namespace
}  // namespace espalier::fabric
