// The log of pushed decisions.
#include "controller/state/flows/push_log.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

TEST(PushLog, NumbersDecisionsAndKeepsTheLatest) {
  PushLog log(3);
  EXPECT_TRUE(log.entries().empty());
  for (std::uint16_t port = 1; port <= 5; ++port) {
    PushedPath entry;
    entry.port = port;
    log.Record(std::move(entry));
  }
  ASSERT_EQ(log.entries().size(), 3U);
  EXPECT_EQ(log.entries().front().sequence, 3U);
  EXPECT_EQ(log.entries().front().port, 3U);
  EXPECT_EQ(log.entries().back().sequence, 5U);
}

}  // namespace
}  // namespace espalier::controller
