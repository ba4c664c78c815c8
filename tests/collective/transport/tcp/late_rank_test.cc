#include "collective/transport/tcp/late_rank.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace espalier::transport {
namespace {

constexpr int kRank = 2;
constexpr int kRanks = 8;

std::optional<int> Find(const std::vector<PeerInCall>& peers) {
  return FindLateRank(kRank, kRanks, peers);
}

TEST(LateRank, IsAnAwaitedPeerThatHasNotEntered) {
  EXPECT_EQ(Find({}), std::nullopt);
  EXPECT_EQ(Find({{.peer = 5, .is_awaited = true}}), 5);
  EXPECT_EQ(Find({{.peer = 5}}), std::nullopt) << "nobody waits for it";
  EXPECT_EQ(Find({{.peer = 5, .is_awaited = true, .has_entered = true}}), std::nullopt);
}

TEST(LateRank, IsWhomAnAwaitedPeerNames) {
  EXPECT_EQ(Find({{.peer = 5, .is_awaited = true, .has_entered = true, .named = 7}}), 7);
  EXPECT_EQ(Find({{.peer = 5, .has_entered = true, .named = 7}}), std::nullopt);
}

TEST(LateRank, IsTheLeastOfSeveral) {
  EXPECT_EQ(Find({{.peer = 4, .is_awaited = true},
                  {.peer = 5, .is_awaited = true, .has_entered = true, .named = 3},
                  {.peer = 6, .is_awaited = true}}),
            3);
}

TEST(LateRank, IsNotOneThatHasEnteredMeanwhile) {
  EXPECT_EQ(Find({{.peer = 5, .is_awaited = true, .has_entered = true, .named = 7},
                  {.peer = 7, .has_entered = true}}),
            std::nullopt);
  EXPECT_EQ(Find({{.peer = 5, .is_awaited = true, .has_entered = true, .named = kRank}}),
            std::nullopt)
      << "this rank is here";
}

TEST(LateRank, IsNoRankThatTheGroupDoesNotHave) {
  for (const int none : {-1, kRanks, 1 << 30}) {
    EXPECT_EQ(Find({{.peer = 5, .is_awaited = true, .has_entered = true, .named = none}}),
              std::nullopt);
  }
}

}  // namespace
}  // namespace espalier::transport
