#include "controller/paths/unreachable_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;

constexpr TimePoint kFirstTurn{1h};

UnreachablePairs::LeafPair Pair(int number) {
  return {fabric::NodeId(number), fabric::NodeId(number + 1)};
}
fabric::PortKey Key(int number) { return {.source = fabric::NodeId(number)}; }
const auto kAlways = [](const auto&, const auto&) { return true; };

TEST(UnreachablePairs, HaveTheirTurnEveryFiveSeconds) {
  UnreachablePairs pairs;
  EXPECT_THAT(pairs.Take(kFirstTurn, kAlways), IsEmpty());
  pairs.Add(Pair(1), Key(1));
  EXPECT_TRUE(pairs.Contains(Pair(1)));
  EXPECT_THAT(pairs.Take(kFirstTurn, kAlways), testing::ElementsAre(Key(1)));
  EXPECT_THAT(pairs.Take(kFirstTurn + 4s, kAlways), IsEmpty());
  EXPECT_THAT(pairs.Take(kFirstTurn + 5s, kAlways), testing::ElementsAre(Key(1)));
  EXPECT_EQ(pairs.rounds(), 2U);
}

TEST(UnreachablePairs, TakeTurnsWhereThereAreMany) {
  UnreachablePairs pairs;
  for (int i = 0; i < 40; ++i) pairs.Add(Pair(i), Key(i));
  std::set<fabric::PortKey> seen;
  for (int round = 0; round < 3; ++round) {
    const auto keys = pairs.Take(kFirstTurn + round * 5s, kAlways);
    EXPECT_EQ(keys.size(), 16U);
    seen.insert(keys.begin(), keys.end());
  }
  EXPECT_EQ(seen.size(), 40U);
}

TEST(UnreachablePairs, AreForgottenWhenThatNoLongerHoldsOrTheirHashHasChanged) {
  UnreachablePairs pairs;
  for (int i = 0; i < 3; ++i) pairs.Add(Pair(i), Key(i));
  pairs.Forget({.pairs = {Pair(2)}});
  EXPECT_FALSE(pairs.Contains(Pair(2)));
  const auto keys =
      pairs.Take(kFirstTurn, [](const auto& pair, const auto&) { return pair == Pair(1); });
  EXPECT_THAT(keys, testing::ElementsAre(Key(1)));
  EXPECT_FALSE(pairs.Contains(Pair(0)));
  EXPECT_TRUE(pairs.Contains(Pair(1)));
}

}  // namespace
}  // namespace espalier::controller
