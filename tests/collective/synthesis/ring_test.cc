#include "collective/synthesis/schedules/ring.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective/synthesis/construction.h"
#include "collective/synthesis/schedules/schedule.h"
#include "collective/synthesis/schedules/verifier.h"

namespace espalier::synthesis {
namespace {

TEST(RingSchedule, TakesAllStepsAtTheOptimalBandwidth) {
  for (const int nodes : {2, 3, 4, 7, 12}) {
    for (const bool both : {false, true}) {
      if (both && nodes == 2) continue;
      std::vector<std::int64_t> numbers{both ? 2 : 1, nodes};
      const auto network = BuildNetwork({both ? Form::kBiRing : Form::kUniRing, {}, numbers});
      for (const Collective collective :
           {Collective::kAllgather, Collective::kReduceScatter, Collective::kAllreduce}) {
        const auto schedule = MakeRingSchedule(network->graph, collective);
        ASSERT_TRUE(schedule) << schedule.error().message;
        const auto cost = VerifySchedule(network->graph, *schedule);
        ASSERT_TRUE(cost) << nodes << both << cost.error().message;
        const int phases = collective == Collective::kAllreduce ? 2 : 1;
        EXPECT_EQ(cost->steps, phases * (nodes - 1));
        EXPECT_EQ(cost->t_b, Rational(phases * (nodes - 1), nodes));
        EXPECT_EQ(cost->duplicate_chunks, 0);
      }
    }
  }
}

TEST(RingSchedule, FollowsARingWhoseNodesAreNotInOrder) {
  const Digraph graph(5, {{0, 3, 2}, {3, 1, 2}, {1, 4, 2}, {4, 2, 2}, {2, 0, 2}});
  const auto schedule = MakeRingSchedule(graph, Collective::kAllreduce);
  ASSERT_TRUE(schedule);
  EXPECT_TRUE(VerifySchedule(graph, *schedule));
}

TEST(RingSchedule, RefusesNetworksThatAreNoRing) {
  const auto message = [](const Digraph& graph) {
    return MakeRingSchedule(graph, Collective::kAllgather)
        .map([](const auto&) { return 0; })
        .error()
        .message;
  };
  EXPECT_NE(message(Digraph(6, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}, {3, 4, 1}, {4, 5, 1}, {5, 3, 1}}))
                .find("more than one"),
            std::string::npos);
  EXPECT_NE(message(BuildNetwork(*ParseConstruction("Complete(4)"))->graph).find("neighbours"),
            std::string::npos);
  EXPECT_NE(message(Digraph(3, {{0, 1, 1}, {1, 2, 2}, {2, 0, 1}})).find("bandwidth"),
            std::string::npos);
  EXPECT_NE(message(Digraph(2, {})).find("neighbours"), std::string::npos);
  EXPECT_NE(message(Digraph(1, {})).find("two nodes"), std::string::npos);
}

}  // namespace
}  // namespace espalier::synthesis
