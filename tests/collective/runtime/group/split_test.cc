#include "collective/runtime/group/split.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/collective/runtime/collective_cases.h"
#include "tests/collective/runtime/ranks_test.h"

namespace espalier::runtime {
namespace {

class SplitTest : public RanksTest {};
INSTANTIATE_TEST_SUITE_P(All, SplitTest,
                         ::testing::Values(Medium::kShared, Medium::kTcp, Medium::kHosts),
                         [](const auto& test) { return std::string(MediumName(test.param)); });

std::int64_t SumOf(Communicator& group, std::int64_t value) {
  ExpectDone(group.AllReduce(&value, &value, 1, reduce::DataType::kI64, reduce::ReduceOp::kSum));
  return value;
}

// Even and odd ranks, the odd ones in reverse order; then the last rank is in no color.
TEST_P(SplitTest, FormsAGroupForEachColor) {
  RunRanks(7, [](Communicator& group) {
    const int rank = group.rank();
    auto part = Split(group, rank % 2, rank % 2 == 0 ? 0 : -rank);
    ASSERT_TRUE(part) << part.error().message;
    ASSERT_NE(*part, nullptr);
    EXPECT_EQ((*part)->size(), rank % 2 == 0 ? 4 : 3);
    EXPECT_EQ((*part)->rank(), rank % 2 == 0 ? rank / 2 : (5 - rank) / 2);
    EXPECT_EQ(SumOf(**part, rank), rank % 2 == 0 ? 12 : 9);
    auto most = Split(group, rank == 6 ? kNoColor : 3, 0);
    ASSERT_TRUE(most) << most.error().message;
    EXPECT_EQ(*most == nullptr, rank == 6);
    if (*most != nullptr) {
      EXPECT_EQ(SumOf(**most, rank), 15);
      ExpectEveryCollective(**most, false);
    }
    auto nobody = Split(group, kNoColor, 0);
    ASSERT_TRUE(nobody) << nobody.error().message;
    EXPECT_EQ(*nobody, nullptr);
    // A group of a group, whose parents go on.
    auto half = Split(**part, (*part)->rank() / 2, 0);
    ASSERT_TRUE(half) << half.error().message;
    EXPECT_LE((*half)->size(), 2);
    static_cast<void>(SumOf(**half, 1));
    EXPECT_EQ(SumOf(group, 1), 7);
    EXPECT_EQ(SumOf(**part, 1), (*part)->size());
  });
}

TEST_P(SplitTest, IsRefusedOnEveryRankIfOneHasNoSuchColor) {
  RunRanks(3, [](Communicator& group) {
    const auto refused = Split(group, group.rank() == 1 ? -5 : 0, 0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find("rank 1 passes color -5"), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(SumOf(group, 2), 6);
  });
}

}  // namespace
}  // namespace espalier::runtime
