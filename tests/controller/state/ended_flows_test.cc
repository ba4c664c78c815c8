#include "controller/state/flows/ended_flows.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

TEST(EndedFlows, KeepsTheLatestInTheirOrder) {
  EndedFlows ended(3);
  for (const char* job : {"a", "b", "c", "d"}) ended.Record({.job = job});
  ASSERT_EQ(ended.flows().size(), 3U);
  EXPECT_EQ(ended.flows().front().job, "b");
  EXPECT_EQ(ended.flows().front().sequence, 2U);
  EXPECT_EQ(ended.flows().back().sequence, 4U);
}

}  // namespace
}  // namespace espalier::controller
