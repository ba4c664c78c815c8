#include "collective/synthesis/schedules/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "collective/synthesis/graphs/families.h"
#include "collective/synthesis/schedules/bfb.h"
#include "tests/collective/synthesis/random_digraph.h"
#include "tests/seeds.h"

namespace espalier::synthesis {
namespace {

// K_{2,2} of Figure 3.1: nodes 0 and 2 on one side, 1 and 3 on the other. The second hop of every
// shard comes in halves over both links.
const Digraph& Square() {
  static const Digraph graph = BuildCompleteBipartite(2)->graph;
  return graph;
}

Schedule SquareAllgather() {
  Schedule schedule{.collective = Collective::kAllgather,
                    .node_count = 4,
                    .chunks = 2,
                    .steps = 2,
                    .reduce_steps = 0,
                    .sends = {}};
  for (std::int32_t v = 0; v < 4; ++v) {
    const std::int32_t left = (v + 1) % 4;
    const std::int32_t right = (v + 3) % 4;
    schedule.sends.push_back({v, v, left, 1, 0, 2});
    schedule.sends.push_back({v, v, right, 1, 0, 2});
    schedule.sends.push_back({v, left, (v + 2) % 4, 2, 0, 1});
    schedule.sends.push_back({v, right, (v + 2) % 4, 2, 1, 2});
  }
  return schedule;
}

std::string ErrorOf(const Digraph& graph, const Schedule& schedule) {
  const auto cost = VerifySchedule(graph, schedule);
  if (cost) return "";
  EXPECT_EQ(cost.error().code, ErrorCode::kFailedPrecondition);
  return cost.error().message;
}

TEST(ScheduleVerifier, GivesTheCostOfFigure31) {
  const auto cost = VerifySchedule(Square(), SquareAllgather());
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_EQ(cost->steps, 2);
  EXPECT_EQ(cost->t_b, Rational(3, 4));
  EXPECT_EQ(cost->duplicate_chunks, 0);
  ASSERT_EQ(cost->step_loads.size(), 2U);
  EXPECT_EQ(cost->step_loads[0].load, Rational(1, 1));
  EXPECT_EQ(cost->step_loads[1].load, Rational(1, 2));
}

TEST(ScheduleVerifier, NamesWhatIsMissingWhenASendIsLost) {
  Schedule schedule = SquareAllgather();
  schedule.sends.pop_back();
  EXPECT_EQ(ErrorOf(Square(), schedule), "node 1 never receives [1/2, 1) of the shard of node 3");
}

TEST(ScheduleVerifier, RefusesASendOfWhatArrivesInTheSameStep) {
  Schedule schedule = SquareAllgather();
  schedule.sends[2].step = 1;
  EXPECT_EQ(ErrorOf(Square(), schedule),
            "step 1: node 1 sends [0, 1/2) of the shard of node 0 to node 2: the sender has not "
            "received it before");
}

TEST(ScheduleVerifier, CountsWhatIsReceivedTwice) {
  Schedule schedule = SquareAllgather();
  schedule.sends[2].end = 2;
  const auto cost = VerifySchedule(Square(), schedule);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->duplicate_chunks, 1);
  EXPECT_EQ(cost->t_b, Rational(1, 1));
  // A reduction would add it twice.
  EXPECT_EQ(ErrorOf(Square(), Reverse(schedule)),
            "step 1: node 2 sends [1/2, 1) of the shard of node 0 to node 3: it would be added "
            "twice");
}

TEST(ScheduleVerifier, RefusesNumbersOutOfRangeAndLinksThatDoNotExist) {
  const auto with = [](auto change) {
    Schedule schedule = SquareAllgather();
    change(schedule);
    return ErrorOf(Square(), schedule);
  };
  EXPECT_NE(with([](Schedule& s) { s.sends[0].to = 2; }).find("no such link"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.sends[0].to = 4; }).find("range"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.sends[0].from = -1; }).find("range"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.sends[0].step = 3; }).find("range"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.sends[0].step = 0; }).find("range"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.sends[0].end = 3; }).find("range"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.sends[0].end = 0; }).find("range"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.node_count = 5; }).find("for 5 nodes"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.chunks = 0; }).find("range"), std::string::npos);
  EXPECT_NE(with([](Schedule& s) { s.reduce_steps = 1; }).find("does not suit"), std::string::npos);
}

TEST(ScheduleVerifier, AcceptsAReduceScatterAndRefusesItsFaults) {
  const Schedule reduce = Reverse(SquareAllgather());
  const auto cost = VerifySchedule(Square(), reduce);
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_EQ(cost->t_b, Rational(3, 4));
  Schedule lost = reduce;
  lost.sends.erase(lost.sends.begin() + 2);
  EXPECT_EQ(ErrorOf(Square(), lost), "node 2 never sends its part [0, 1/2) of the shard of node 0");
  Schedule late = reduce;
  late.sends[2].step = 2;  // node 2 sends when node 1 has already sent its sum
  EXPECT_EQ(ErrorOf(Square(), late),
            "step 2: node 2 sends [0, 1/2) of the shard of node 0 to node 1: the receiver does not "
            "pass it on later");
  Schedule away = reduce;
  away.sends.push_back({0, 0, 1, 1, 0, 1});
  EXPECT_EQ(ErrorOf(Square(), away),
            "step 1: node 0 sends [0, 1/2) of the shard of node 0 to node 1: that node must keep "
            "it");
}

TEST(ScheduleVerifier, AcceptsAnAllreduceThatIsBothInTurn) {
  const auto all = Concatenate(Reverse(SquareAllgather()), SquareAllgather());
  ASSERT_TRUE(all);
  const auto cost = VerifySchedule(Square(), *all);
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_EQ(cost->steps, 4);
  EXPECT_EQ(cost->t_b, Rational(3, 2));
  Schedule swapped = *all;
  swapped.reduce_steps = 1;
  EXPECT_NE(ErrorOf(Square(), swapped), "");
}

TEST(ScheduleVerifier, ReportsASumThatExceeds127Bits) {
  // Steps with loads 1/p for many primes p have no common denominator of 127 bits.
  std::vector<Arc> arcs;
  std::int32_t n = 0;
  for (std::int64_t p = (std::int64_t{1} << 40) - 1; n < 8; p -= 2, ++n) {
    arcs.push_back({n, (n + 1) % 8, p});
  }
  const Digraph ring(8, arcs);
  Schedule schedule{.collective = Collective::kAllgather,
                    .node_count = 8,
                    .chunks = 1,
                    .steps = 7,
                    .reduce_steps = 0,
                    .sends = {}};
  for (std::int32_t v = 0; v < 8; ++v) {
    for (std::int32_t t = 1; t < 8; ++t) {
      if (t == v % 7 + 1) schedule.sends.push_back({v, v, (v + 1) % 8, t, 0, 1});
    }
  }
  const auto cost = ComputeCost(ring, schedule);
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().code, ErrorCode::kResourceExhausted);
}

// Each change of a valid schedule without duplicates makes it invalid.
void ExpectMutationsAreFound(const Digraph& graph, const Schedule& valid, std::mt19937_64& random) {
  const auto draw = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  ASSERT_TRUE(VerifySchedule(graph, valid));
  for (int kind = 0; kind < 4; ++kind) {
    Schedule changed = valid;
    Send& send = changed.sends[draw(changed.sends.size())];
    if (kind == 0) {  // drops a send
      std::swap(send, changed.sends.back());
      changed.sends.pop_back();
    } else if (kind == 1) {  // sends less
      if (send.end - send.begin < 2) continue;
      --send.end;
    } else if (kind == 2) {  // another shard
      send.source = (send.source + 1) % changed.node_count;
    } else {  // too early, if it is not the source's own
      if (send.step == 1 || send.from == send.source || send.to == send.source) continue;
      send.step = changed.collective == Collective::kReduceScatter ? changed.steps : 1;
      if (send.step == valid.sends[static_cast<std::size_t>(&send - changed.sends.data())].step) {
        continue;
      }
    }
    EXPECT_FALSE(VerifySchedule(graph, changed)) << "kind " << kind;
  }
}

TEST(ScheduleVerifier, FindsEveryMutationOfRandomSchedules) {
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Digraph graph = MakeRandomRegular(5 + static_cast<int>(seed % 6), 2, random);
    for (const Collective collective : {Collective::kAllgather, Collective::kReduceScatter}) {
      const auto schedule = MakeBfbSchedule(graph, collective);
      ASSERT_TRUE(schedule);
      ExpectMutationsAreFound(graph, *schedule, random);
    }
  }
}

}  // namespace
}  // namespace espalier::synthesis
