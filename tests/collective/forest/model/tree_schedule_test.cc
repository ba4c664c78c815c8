#include "collective/forest/model/tree_schedule.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::forest {
namespace {

constexpr Collective kAll[] = {Collective::kAllgather, Collective::kReduceScatter,
                               Collective::kAllreduce, Collective::kBroadcast, Collective::kReduce};

TEST(Collective, IsFoundByItsName) {
  for (const Collective collective : kAll) {
    EXPECT_EQ(FindCollective(CollectiveName(collective)), collective);
  }
  for (const char* wrong : {"", "Allgather", "allgather ", "all-reduce", "reducescatter"}) {
    EXPECT_EQ(FindCollective(wrong), std::nullopt) << wrong;
  }
}

// What the trees do follows from what the ranks have before and after.
TEST(Collective, GoesUpWhereDataIsAddedAndDownWhereSeveralRanksGetIt) {
  for (const Collective collective : kAll) {
    const std::string name(CollectiveName(collective));
    EXPECT_EQ(GoesUp(collective), name.find("reduce") != std::string::npos) << name;
    const bool all_get_all = name.starts_with("all") || name == "broadcast";
    EXPECT_EQ(GoesDown(collective), all_get_all) << name;
    EXPECT_EQ(HasRoot(collective), name == "broadcast" || name == "reduce") << name;
  }
}

TEST(TreeSchedule, CountsAlgorithmBandwidthAsTheTestsDo) {
  TreeSchedule schedule;
  schedule.weights = {3, 0, 1};
  EXPECT_EQ(schedule.TotalWeight(), 4);
  const Rational inverse(2, 5);
  for (const Collective collective : kAll) {
    schedule.collective = collective;
    const Rational expected =
        collective == Collective::kAllreduce ? Rational(5, 1) : Rational(10, 1);
    EXPECT_EQ(schedule.AlgorithmGbps(inverse), expected) << CollectiveName(collective);
  }
  schedule.bound_inverse_rate = Rational(1, 3);
  schedule.inverse_rate = inverse;
  EXPECT_EQ(schedule.FractionOfBound(), Rational(5, 6));
  EXPECT_DEATH(schedule.AlgorithmGbps(Rational(0, 1)), "check failed");
}

}  // namespace
}  // namespace espalier::forest
