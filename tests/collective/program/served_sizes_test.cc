// Which calls a program serves, in words.
#include "collective/program/served_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace espalier::program {
namespace {

using Calls = ServedSizes::Calls;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

Program WithSizes(CollectiveKind kind, std::int64_t least, std::int64_t greatest) {
  Program program;
  program.collective.kind = kind;
  program.collective.ranks = 4;
  program.min_bytes = least;
  program.max_bytes = greatest;
  return program;
}

TEST(ServedSizes, AreThoseOfTheFileWhereCallsHaveThem) {
  const auto describe = [](std::int64_t least, std::int64_t greatest) {
    return DescribeServedSizes(WithSizes(CollectiveKind::kAllReduce, least, greatest));
  };
  EXPECT_EQ(describe(0, kNoLimit), "serves calls of any size");
  EXPECT_EQ(describe(7, kNoLimit), "serves calls of at least 7 bytes");
  EXPECT_EQ(describe(7, 7), "serves calls of 7 to 7 bytes");
  EXPECT_EQ(describe(0, 1024), "serves calls of 0 to 1024 bytes");
}

TEST(ServedSizes, SayPlainlyThatNoCallHasThem) {
  const Program empty = WithSizes(CollectiveKind::kAllReduce, 0, 0);
  EXPECT_EQ(SizesServedBy(empty).calls, Calls::kOnlyEmpty);
  EXPECT_THAT(DescribeServedSizes(empty), StartsWith("serves only empty calls"));
  const Program reversed = WithSizes(CollectiveKind::kAllReduce, 8, 4);
  EXPECT_EQ(SizesServedBy(reversed).calls, Calls::kNone);
  EXPECT_THAT(DescribeServedSizes(reversed), StartsWith("serves no call"));
  EXPECT_THAT(DescribeServedSizes(reversed),
              HasSubstr("its least size, 8 bytes, is above its greatest, 4"));
}

TEST(ServedSizes, AreMultiplesOfTheRanksWhereRanksHaveEqualShares) {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll}) {
    EXPECT_EQ(DescribeServedSizes(WithSizes(kind, 5, 13)), "serves calls of 8 to 12 bytes");
    EXPECT_EQ(SizesServedBy(WithSizes(kind, 5, 7)).calls, Calls::kNone);
    EXPECT_EQ(SizesServedBy(WithSizes(kind, 0, 3)).calls, Calls::kOnlyEmpty);
    EXPECT_THAT(DescribeServedSizes(WithSizes(kind, 5, 7)),
                HasSubstr("the data of 4 ranks is a multiple of 4 bytes"));
    EXPECT_EQ(SizesServedBy(WithSizes(kind, kNoLimit, kNoLimit)).least, kNoLimit);
  }
}

TEST(ServedSizes, OfABarrierAreNone) {
  EXPECT_EQ(DescribeServedSizes(WithSizes(CollectiveKind::kBarrier, 0, kNoLimit)),
            "serves barriers, which have no data");
  EXPECT_EQ(DescribeServedSizes(WithSizes(CollectiveKind::kBarrier, 0, 0)),
            "serves barriers, which have no data");
  EXPECT_THAT(DescribeServedSizes(WithSizes(CollectiveKind::kBarrier, 1, 8)),
              HasSubstr("a barrier has no data"));
}

}  // namespace
}  // namespace espalier::program
