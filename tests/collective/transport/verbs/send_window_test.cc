#include "collective/transport/verbs/send_window.h"

#include <gtest/gtest.h>

#include <deque>

namespace espalier::transport {
namespace {

using Numbers = std::deque<std::uint64_t>;

// Commits `count` messages and removes them from the waiting ones.
void Send(SendWindow& window, int messages) {
  for (int i = 0; i < messages; ++i) {
    ASSERT_TRUE(window.HasRoom());
    window.Commit();
  }
  window.waiting().clear();
}

TEST(SendWindow, SendsInTheOrderOfCommitAndInAsManySlotsAsThereAre) {
  SendWindow window(3);
  EXPECT_TRUE(window.IsFlushed());
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(window.HasRoom());
    EXPECT_EQ(window.next(), i);
    window.Commit();
  }
  EXPECT_FALSE(window.HasRoom());
  EXPECT_EQ(window.waiting(), (Numbers{0, 1, 2}));
  EXPECT_FALSE(window.IsFlushed());
}

// A released message may still be in flight a second time on a lane that has closed.
TEST(SendWindow, ReusesASlotOnlyAfterItsMessageIsReleasedAndHasArrived) {
  SendWindow released_first(2);
  Send(released_first, 2);
  EXPECT_TRUE(released_first.MarkReleased(1));
  EXPECT_FALSE(released_first.HasRoom());
  released_first.MarkArrived(0);
  EXPECT_TRUE(released_first.HasRoom());

  SendWindow arrived_first(2);
  Send(arrived_first, 2);
  arrived_first.MarkArrived(0);
  arrived_first.MarkArrived(1);
  EXPECT_TRUE(arrived_first.IsFlushed());
  EXPECT_FALSE(arrived_first.HasRoom());
  EXPECT_TRUE(arrived_first.MarkReleased(1));
  EXPECT_TRUE(arrived_first.HasRoom());
  arrived_first.Commit();
  EXPECT_FALSE(arrived_first.HasRoom());
  EXPECT_FALSE(arrived_first.IsFlushed());
}

TEST(SendWindow, RefusesReleasesOfUncommittedMessagesAndIgnoresOldOnes) {
  SendWindow window(2);
  Send(window, 2);
  window.MarkArrived(0);
  window.MarkArrived(1);
  EXPECT_FALSE(window.MarkReleased(3));
  EXPECT_FALSE(window.HasRoom());
  EXPECT_TRUE(window.MarkReleased(2));
  EXPECT_TRUE(window.MarkReleased(1));  // was overtaken
  Send(window, 2);
  EXPECT_FALSE(window.HasRoom());
}

TEST(SendWindow, ResendsLostMessagesBeforeWaitingOnes) {
  SendWindow window(8);
  Send(window, 7);
  window.Commit();
  // Messages 0 to 2 are released, 4 has arrived, 3 and 6 are lost.
  ASSERT_TRUE(window.MarkReleased(3));
  window.Settle({2, 6, 4, 3, 1}, 3, std::uint64_t{1} << 4);
  EXPECT_EQ(window.waiting(), (Numbers{3, 6, 7}));
  for (const std::uint64_t message : {0, 5, 3, 6, 7}) {
    EXPECT_FALSE(window.IsFlushed());
    window.MarkArrived(message);
  }
  EXPECT_TRUE(window.IsFlushed());
}

// Beyond the number of slots, a bit stands for a later message.
TEST(SendWindow, ReadsTheBitsOfArrivedSlotsAroundTheWindow) {
  SendWindow window(4);
  Send(window, 4);
  for (std::uint64_t i = 0; i < 4; ++i) window.MarkArrived(i);
  ASSERT_TRUE(window.MarkReleased(4));
  Send(window, 3);
  window.Settle({4, 5, 6}, 4, 0b010);
  EXPECT_EQ(window.waiting(), (Numbers{4, 6}));
}

TEST(SendWindow, IsNeededUntilASlotMayHaveComeFree) {
  SendWindow window(1);
  EXPECT_FALSE(window.is_needed());
  Send(window, 1);
  window.MarkNeeded();
  EXPECT_TRUE(window.is_needed());
  window.MarkArrived(0);
  EXPECT_FALSE(window.is_needed());
  window.MarkNeeded();
  EXPECT_TRUE(window.MarkReleased(0));  // nothing new
  EXPECT_TRUE(window.is_needed());
  EXPECT_TRUE(window.MarkReleased(1));
  EXPECT_FALSE(window.is_needed());
}

}  // namespace
}  // namespace espalier::transport
