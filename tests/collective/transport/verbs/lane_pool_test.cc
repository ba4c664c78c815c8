#include "collective/transport/verbs/lane_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace espalier::transport {
namespace {

// Lanes without queue pairs, to test the choice among them.
constexpr Lane::LaneResources kNoDevice = {.receives = 1, .sends = 1};

LanePool PoolOf(int count, const std::vector<std::uint16_t>& ports) {
  return LanePool(kNoDevice, count, ports);
}

// The lanes of the next `count` messages.
std::vector<std::uint32_t> Turns(LanePool& pool, int messages) {
  std::vector<std::uint32_t> turns;
  for (int i = 0; i < messages; ++i) {
    const Lane* const lane = pool.ChooseForMessage();
    if (lane != nullptr) turns.push_back(lane->index());
  }
  return turns;
}

using Lanes = std::vector<std::uint32_t>;

TEST(LanePool, GivesMessagesToTheLanesThatHavePortsInTurn) {
  LanePool two = PoolOf(3, {50000, 50001});
  EXPECT_EQ(Turns(two, 4), (Lanes{0, 1, 0, 1}));
  EXPECT_EQ(two[1].port, 50001);
  EXPECT_EQ(two[2].port, 0);
  LanePool none = PoolOf(3, {});
  EXPECT_EQ(Turns(none, 2), (Lanes{0, 0}));
}

// A lane whose messages are acknowledged late falls behind and gets fewer.
TEST(LanePool, GivesTheNextMessageToTheLaneThatIsAhead) {
  std::vector<LaneLoad> lanes(3);
  lanes[0].in_flight = 2;
  lanes[1].in_flight = 1;
  lanes[2].is_spare = true;
  EXPECT_EQ(LaneForMessage(lanes, 0), 1U);
  lanes[1].in_flight = 2;
  EXPECT_EQ(LaneForMessage(lanes, 0), 0U);
  EXPECT_EQ(LaneForMessage(lanes, 1), 1U) << "equal ones take turns";
  lanes[1].in_flight = 0;
  lanes[1].can_take = false;
  EXPECT_EQ(LaneForMessage(lanes, 1), 0U);
  lanes[0].can_take = false;
  EXPECT_EQ(LaneForMessage(lanes, 0), std::nullopt) << "not even a spare";
  // Two paths of which one is three times as slow: messages complete at the end of a round.
  std::vector<int> taken(2);
  lanes.assign(2, {});
  for (int round = 0; round < 60; ++round) {
    while (lanes[0].in_flight + lanes[1].in_flight < 8) {
      const auto lane = LaneForMessage(lanes, static_cast<std::size_t>(round) % 2);
      ++taken[*lane];
      ++lanes[*lane].in_flight;
    }
    lanes[0].in_flight -= std::min<std::size_t>(3, lanes[0].in_flight);
    lanes[1].in_flight -= std::min<std::size_t>(1, lanes[1].in_flight);
  }
  EXPECT_NEAR(taken[0], 3 * taken[1], 12);
}

TEST(LanePool, TakesSpareLanesWhereTheOthersHaveFailedMore) {
  LanePool pool = PoolOf(4, {50000, 50001});
  pool.MarkFailed(pool[1]);
  EXPECT_EQ(Turns(pool, 2), (Lanes{0, 0}));
  pool.MarkFailed(pool[0]);
  EXPECT_EQ(Turns(pool, 3), (Lanes{2, 3, 2}));
  pool.MarkFailed(pool[2]);
  pool.MarkFailed(pool[3]);
  EXPECT_EQ(Turns(pool, 3), (Lanes{0, 1, 0}));
}

// Messages wait for the best lanes; notices use any.
TEST(LanePool, GivesANoticeToAnyLaneThatIsReady) {
  LanePool pool = PoolOf(3, {50000});
  pool[0].state = Lane::State::kConnected;
  EXPECT_EQ(pool.ChooseForMessage(), nullptr);
  ASSERT_NE(pool.ChooseForNotice(), nullptr);
  EXPECT_EQ(pool.ChooseForNotice()->index(), 1U);
  pool[0].state = Lane::State::kReady;
  EXPECT_EQ(pool.ChooseForNotice()->index(), 0U);
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i].state = Lane::State::kClosing;
  EXPECT_EQ(pool.ChooseForNotice(), nullptr);
}

TEST(LanePool, GivesALaneThatHasFailedAnotherPort) {
  LanePool pool = PoolOf(2, {50000});
  pool[0].port_in_use = 50000;
  pool.MarkFailed(pool[0]);
  EXPECT_TRUE(pool[0].has_failed);
  EXPECT_EQ(pool[0].failures, 1);
  EXPECT_NE(pool[0].port, 50000);
  EXPECT_GE(pool[0].port, 49152);
}

TEST(LanePool, ForgetsFailuresOfLanesThatGetAPort) {
  LanePool pool = PoolOf(3, {50000});
  for (std::size_t i = 0; i < pool.size(); ++i) pool.MarkFailed(pool[i]);
  const std::vector<std::uint16_t> ports = {50002, 50003};
  pool.SetPorts(ports);
  EXPECT_EQ(pool[0].port, 50002);
  EXPECT_EQ(pool[1].port, 50003);
  EXPECT_EQ(pool[1].failures, 0);
  EXPECT_EQ(pool[2].failures, 1);
  EXPECT_TRUE(pool[2].is_spare);
  EXPECT_EQ(Turns(pool, 2), (Lanes{0, 1}));
}

TEST(Lane, ReceivesWhileItsQueuePairIsOpenAndTakesMessagesOnlyWhenReady) {
  Lane lane(kNoDevice, 0);
  for (const auto& [state, is_open, can_take] :
       {std::tuple(Lane::State::kReady, true, true),
        std::tuple(Lane::State::kEmptying, true, false),
        std::tuple(Lane::State::kClosing, false, false),
        std::tuple(Lane::State::kRenewed, false, false),
        std::tuple(Lane::State::kConnected, true, false)}) {
    lane.state = state;
    EXPECT_EQ(lane.IsOpen(), is_open);
    EXPECT_EQ(lane.CanTake(), can_take);
  }
}

TEST(Lane, NamesTheLaneAndTheBufferOfACompletion) {
  EXPECT_EQ(Lane::IndexOf((std::uint64_t{3} << 32) | 7), 3U);
  EXPECT_EQ(Lane::BufferOf((std::uint64_t{3} << 32) | 7), 7U);
  EXPECT_EQ(Lane::BufferOf((std::uint64_t{3} << 32) | Lane::kNoBuffer), Lane::kNoBuffer);
}

}  // namespace
}  // namespace espalier::transport
