#include "collective/transport/verbs/receive_window.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace espalier::transport {
namespace {

using Arrival = ReceiveWindow::Arrival;

// Receives and releases `count` messages.
void Pass(ReceiveWindow& window, std::uint64_t messages) {
  for (std::uint64_t i = 0; i < messages; ++i) {
    ASSERT_EQ(window.Accept(static_cast<std::uint32_t>(window.next())), Arrival::kExpected);
    window.Release();
  }
}

TEST(ReceiveWindow, PutsMessagesInOrder) {
  ReceiveWindow window(4);
  EXPECT_EQ(window.Accept(2), Arrival::kExpected);
  EXPECT_EQ(window.Accept(0), Arrival::kExpected);
  EXPECT_EQ(window.arrived(), 0b101U);
  ASSERT_TRUE(window.HasNext());
  window.Release();
  EXPECT_EQ(window.next(), 1U);
  EXPECT_FALSE(window.HasNext());
  EXPECT_EQ(window.arrived(), 0b100U);
  EXPECT_EQ(window.Accept(1), Arrival::kExpected);
  window.Release();
  EXPECT_TRUE(window.HasNext());
}

TEST(ReceiveWindow, TakesNothingForASlotThatIsNotFree) {
  ReceiveWindow window(4);
  EXPECT_EQ(window.Accept(4), Arrival::kTooEarly);
  EXPECT_EQ(window.Accept(3), Arrival::kExpected);
  Pass(window, 1);
  EXPECT_EQ(window.Accept(4), Arrival::kExpected);
  EXPECT_EQ(window.Accept(5), Arrival::kTooEarly);
  EXPECT_EQ(window.Accept(0x80000000), Arrival::kTooEarly);
}

// A device may deliver the same message twice: that is harmless unless the slot was in use again.
TEST(ReceiveWindow, RecognisesARepeatedMessage) {
  ReceiveWindow window(4);
  EXPECT_EQ(window.Accept(UINT32_MAX), Arrival::kTooEarly);  // there is no message before the first
  Pass(window, 6);
  EXPECT_EQ(window.Accept(5), Arrival::kRepeated);
  EXPECT_EQ(window.Accept(2), Arrival::kRepeated);
  EXPECT_EQ(window.Accept(1), Arrival::kTooEarly);
  EXPECT_EQ(window.arrived(), 0U);
  EXPECT_EQ(window.Accept(7), Arrival::kExpected);
  EXPECT_EQ(window.Accept(3), Arrival::kOverAnother);
  EXPECT_EQ(window.Accept(2), Arrival::kRepeated);
}

TEST(ReceiveWindow, CountsOnBeyondTheLowBits) {
  ReceiveWindow window(64);
  Pass(window, 200);
  EXPECT_EQ(window.Accept(263), Arrival::kExpected);
  EXPECT_EQ(window.Accept(264), Arrival::kTooEarly);
  EXPECT_EQ(window.arrived(), std::uint64_t{1} << (263 % 64));
  EXPECT_EQ(window.released(), 200U);
}

TEST(ReceiveWindow, SendsOneReleaseNoticeAtATimeAndRepeatsAFailedOne) {
  ReceiveWindow window(4);
  EXPECT_FALSE(window.HasToTell());
  Pass(window, 1);
  EXPECT_TRUE(window.HasToTell());
  window.BeginTelling();
  Pass(window, 1);
  EXPECT_FALSE(window.HasToTell());
  window.EndTelling(true);
  EXPECT_TRUE(window.HasToTell());
  window.BeginTelling();
  window.EndTelling(true);
  EXPECT_FALSE(window.HasToTell());
  Pass(window, 1);
  window.BeginTelling();
  window.EndTelling(false);
  EXPECT_TRUE(window.HasToTell());
}

TEST(ReceiveWindow, IsNeededUntilAMessageComes) {
  ReceiveWindow window(4);
  Pass(window, 1);
  window.MarkNeeded();
  EXPECT_EQ(window.Accept(0), Arrival::kRepeated);
  EXPECT_TRUE(window.is_needed());
  EXPECT_EQ(window.Accept(2), Arrival::kExpected);
  EXPECT_FALSE(window.is_needed());
}

}  // namespace
}  // namespace espalier::transport
