#include "deploy/lab/workload/ring_member.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace espalier::traffic {
namespace {

TEST(RingMember, SendsARoundForEachRoundReceived) {
  RingMember member(4, 10);  // three hosts
  EXPECT_TRUE(member.IsEpochDone());
  EXPECT_EQ(member.BeginEpoch(), 1);
  EXPECT_FALSE(member.IsEpochDone());
  EXPECT_EQ(member.HandleReceived(9), 0);
  EXPECT_EQ(member.HandleReceived(10), 1);
  EXPECT_EQ(member.HandleReceived(30), 2);
  EXPECT_EQ(member.HandleReceived(40), 0);
  EXPECT_FALSE(member.IsEpochDone());
  member.HandleAcknowledged(39);
  EXPECT_FALSE(member.IsEpochDone());
  member.HandleAcknowledged(40);
  EXPECT_TRUE(member.IsEpochDone());
}

TEST(RingMember, SendsNothingAheadOfItsOwnEpoch) {
  RingMember member(2, 10);
  // The neighbour is already in the next epoch; this host still computes.
  EXPECT_EQ(member.HandleReceived(10), 0);
  EXPECT_EQ(member.BeginEpoch(), 2);
  EXPECT_EQ(member.HandleReceived(30), 0);
  member.HandleAcknowledged(20);
  EXPECT_TRUE(member.IsEpochDone());
  EXPECT_EQ(member.BeginEpoch(), 2);
}

// A whole ring over links that deliver in random order: every chunk is sent once, no host is more
// than a round ahead of what it received, and all epochs end.
TEST(RingMember, RingsOfAllSizesFinishWhateverTheTiming) {
  std::mt19937 random(20'240);
  for (int hosts = 2; hosts <= 9; ++hosts) {
    const int rounds = 2 * (hosts - 1);
    constexpr int kEpochs = 3;
    std::vector<RingMember> members(static_cast<std::size_t>(hosts), RingMember(rounds, 1));
    std::vector<int> begun(members.size());
    std::vector<int> sent(members.size());
    std::vector<int> delivered(members.size());  // bytes delivered to the next host
    for (int steps = 0; steps < 100'000; ++steps) {
      const std::size_t i = random() % members.size();
      const std::size_t next = (i + 1) % members.size();
      if (members[i].IsEpochDone() && begun[i] < kEpochs && random() % 3 == 0) {
        ++begun[i];
        sent[i] += members[i].BeginEpoch();
      } else if (delivered[i] < sent[i]) {
        ++delivered[i];
        sent[next] += members[next].HandleReceived(delivered[i]);
        members[i].HandleAcknowledged(delivered[i]);
      }
      const std::size_t before = (i + members.size() - 1) % members.size();
      ASSERT_LE(sent[i], std::max(delivered[before], (begun[i] - 1) * rounds) + 1);
      ASSERT_LE(sent[i], begun[i] * rounds);
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(begun[i], kEpochs) << hosts;
      EXPECT_EQ(sent[i], kEpochs * rounds) << hosts;
      EXPECT_TRUE(members[i].IsEpochDone()) << hosts;
    }
  }
}

}  // namespace
}  // namespace espalier::traffic
