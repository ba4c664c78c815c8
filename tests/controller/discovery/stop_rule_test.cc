#include "controller/discovery/stop_rule.h"

#include <gtest/gtest.h>

namespace espalier::discovery {
namespace {

TEST(StopRule, NeedsAtMostTwoAnswersMoreThanTheExactValues) {
  struct Row {
    std::size_t next_hops, exact;
  };
  for (const Row& row :
       {Row{1, 8}, {2, 15}, {3, 21}, {4, 28}, {8, 58}, {16, 123}, {32, 264}, {64, 566}}) {
    const std::size_t needed = AnswersNeeded(row.next_hops, 0.01);
    EXPECT_GE(needed, row.exact) << row.next_hops;
    EXPECT_LE(needed, row.exact + 2) << row.next_hops;
    EXPECT_LE(ChanceOfOneMore(row.next_hops, needed), 0.01);
    EXPECT_GT(ChanceOfOneMore(row.next_hops, needed - 1), 0.01);
  }
  EXPECT_EQ(AnswersNeeded(32, 0.01 / 64), 399U);
  EXPECT_EQ(ChanceOfOneMore(0, 100), 1);
}

}  // namespace
}  // namespace espalier::discovery
