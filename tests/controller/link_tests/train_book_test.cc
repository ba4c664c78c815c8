#include "controller/link_tests/trains/train_book.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "common/base/metrics.h"
#include "common/fabric/builders.h"
#include "common/fabric/ecmp/train_token.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

const std::string kKey = "0123456789abcdef";

class Book : public testing::Test {
 protected:
  Book() {
    for (std::uint32_t route = 0; route < routes_.size(); ++route) {
      const TestPair& pair = routes_.PairOf(route);
      const TestPair& first = routes_.PairOf(0);
      if (pair.source == first.destination && pair.destination == first.source) back_ = route;
    }
  }
  // A train of host 0 to host 1, or back; the number is new.
  std::uint64_t Expect(bool back = false) {
    book_.Expect(++number_, {.route = back ? back_ : 0,
                             .protocol = wire::kProtocolUdp,
                             .port = 50'000,
                             .sender = AgentId(back ? 1 : 0),
                             .receiver = AgentId(back ? 0 : 1),
                             .key = kKey,
                             .at = now_});
    return number_;
  }
  static wire::ReceivedTrain Received(std::uint64_t number, std::uint16_t mask,
                                      std::int64_t delay = 100) {
    wire::ReceivedTrain train{.number = number, .arrived_mask = mask};
    for (std::uint8_t i = 0; i < 16; ++i) {
      if ((mask >> i & 1) != 0) train.digest ^= fabric::TrainToken(kKey, number, i);
    }
    train.delays_us.assign(static_cast<std::size_t>(std::popcount(mask)), delay);
    return train;
  }
  std::optional<TrainOutcome> Finish(std::uint64_t number, const wire::ReceivedTrain& received,
                                     bool back = false, std::uint16_t sent = 0xFF,
                                     std::uint64_t span = 70) {
    EXPECT_FALSE(book_.HandleSent(AgentId(back ? 1 : 0), {number, sent, span}));
    return book_.HandleReceived(AgentId(back ? 0 : 1), received);
  }
  // A whole train back, by which delays can be measured.
  void GoBack(std::int64_t delay = 100) {
    const std::uint64_t number = Expect(true);
    ASSERT_TRUE(Finish(number, Received(number, 0xFF, delay), true));
  }
  TrainOutcome Go(std::uint16_t mask, std::int64_t delay = 100) {
    const std::uint64_t number = Expect();
    const auto outcome = Finish(number, Received(number, mask, delay));
    EXPECT_TRUE(outcome);
    return outcome.value_or(TrainOutcome());
  }

  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}))};
  Metrics metrics_;
  PathLearner learner_{state_.topology, state_.paths, state_.path_map, {}, metrics_};
  TestRoutes routes_{state_, learner_, false};
  // With queues shorter than 400 us nothing is dropped.
  TrainBook book_{routes_, {.packets = 8, .short_queue = 400us}};
  std::uint32_t back_ = 0;
  std::uint64_t number_ = 0;
  TimePoint now_{1h};
};

TEST_F(Book, JoinsBothReportsInEitherOrder) {
  GoBack();
  const std::uint64_t number = Expect();
  EXPECT_EQ(book_.under_way(), 1U);
  EXPECT_FALSE(book_.HandleReceived(AgentId(1), Received(number, 0xFF)));
  const auto outcome = book_.HandleSent(AgentId(0), {number, 0xFF, 70});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->sent, 8);
  EXPECT_EQ(outcome->arrived, 8);
  EXPECT_EQ(outcome->sender, AgentId(0));
  EXPECT_EQ(outcome->receiver, AgentId(1));
  EXPECT_EQ(outcome->hops.size(), 2U);
  EXPECT_FALSE(outcome->IsBad());
  EXPECT_EQ(book_.under_way(), 0U);
  EXPECT_FALSE(book_.HandleSent(AgentId(0), {number, 0xFF, 70})) << "it is done";
}

TEST_F(Book, TheLastPacketNeverCounts) {
  GoBack();
  EXPECT_EQ(Go(0xFF).counted, 7);
  const TrainOutcome outcome = Go(0x7F);  // the last one is lost, and nothing follows it
  EXPECT_EQ(outcome.arrived, 7);
  EXPECT_EQ(outcome.counted, 6);
  EXPECT_EQ(outcome.lost, 0);
}

TEST_F(Book, ALossCountsIfTheNextPacketArrived) {
  GoBack();
  const TrainOutcome one = Go(0b1111'0111);
  EXPECT_EQ(one.counted, 6) << "nothing is known of the one before the loss";
  EXPECT_EQ(one.lost, 1);
  const TrainOutcome two = Go(0b1110'0111);  // the first of the two has no follower
  EXPECT_EQ(two.lost, 1);
  EXPECT_EQ(two.counted, 5);
  EXPECT_EQ(Go(0).lost, 0);
  EXPECT_TRUE(Go(0).IsSilent());
}

TEST_F(Book, ALossCountsOnlyWhileTheQueueWasShort) {
  GoBack(100);
  EXPECT_EQ(Go(0b1111'0111, 100).lost, 1);
  // Followers that waited for 290 + 100 us, 10 us after the loss.
  EXPECT_EQ(Go(0b1111'0111, 290).lost, 1);
  const TrainOutcome busy = Go(0b1111'0111, 291);
  EXPECT_EQ(busy.counted, 0);
  EXPECT_EQ(busy.lost, 0);
}

TEST_F(Book, TheGapToTheNextPacketCountsAsQueue) {
  GoBack(100);
  const std::uint64_t slow = Expect();
  // 200 us from one packet to the next, which waited 200 us.
  EXPECT_EQ(Finish(slow, Received(slow, 0b1111'0111), false, 0xFF, 1'400)->lost, 1);
  const std::uint64_t slower = Expect();
  EXPECT_EQ(Finish(slower, Received(slower, 0b1111'0111), false, 0xFF, 1'414)->lost, 0);
}

TEST_F(Book, ClocksOfHostsMayDifferByMinutes) {
  const std::int64_t ahead = 7 * 60'000'000;  // of host 1's clock
  GoBack(100 - ahead);
  EXPECT_EQ(Go(0b1111'0111, 290 + ahead).lost, 1);
  EXPECT_EQ(Go(0b1111'0111, 291 + ahead).lost, 0);
}

TEST_F(Book, NothingCountsWithoutADelayBack) {
  const TrainOutcome outcome = Go(0b1111'0111);
  EXPECT_EQ(outcome.arrived, 7);
  EXPECT_EQ(outcome.counted, 0);
  GoBack();
  EXPECT_EQ(Go(0b1111'0111).lost, 1);
  now_ += 2 * TrainBook::kDelayMemory;  // the delay back is older than that
  EXPECT_EQ(Go(0b1111'0111).counted, 0);
}

TEST_F(Book, AMarkedFollowerExcusesALoss) {
  GoBack();
  const std::uint64_t number = Expect();
  wire::ReceivedTrain received = Received(number, 0b1111'0111);
  received.marked_mask = 0b0001'0000;  // the follower of the lost one
  const auto outcome = Finish(number, received);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->lost, 0);
  EXPECT_EQ(outcome->counted, 5);
}

TEST_F(Book, AForgedDigestIsVoid) {
  const std::uint64_t number = Expect();
  wire::ReceivedTrain received = Received(number, 0b1111'0111);
  received.arrived_mask = 0xFF;  // it claims one more
  received.delays_us.push_back(100);
  EXPECT_FALSE(Finish(number, received));
  EXPECT_EQ(book_.forged(), 1U);
  EXPECT_EQ(book_.under_way(), 0U);
}

TEST_F(Book, PacketsThatWereNeverSentCannotHaveArrived) {
  const std::uint64_t number = Expect();
  EXPECT_FALSE(Finish(number, Received(number, 0xFF), false, 0x7F));
  EXPECT_EQ(book_.forged(), 1U);
}

TEST_F(Book, PacketsThatWereNotSentAreNotLost) {
  GoBack();
  const std::uint64_t number = Expect();
  const auto outcome = Finish(number, Received(number, 0b1111'0111), false, 0b1111'0111);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->sent, 7);
  EXPECT_EQ(outcome->lost, 0);
  const std::uint64_t none = Expect();
  EXPECT_FALSE(Finish(none, Received(none, 0), false, 0)) << "void";
}

TEST_F(Book, AReceiverThatLostPacketsItselfMakesItVoid) {
  const std::uint64_t number = Expect();
  wire::ReceivedTrain received = Received(number, 0b1111'0111);
  received.overflowed = true;
  EXPECT_FALSE(Finish(number, received));
  EXPECT_EQ(book_.forged(), 0U);
  EXPECT_EQ(book_.under_way(), 0U);
}

TEST_F(Book, OnlyTheTrainsOwnEndsReportIt) {
  const std::uint64_t number = Expect();
  EXPECT_FALSE(book_.HandleSent(AgentId(1), {number, 0xFF, 70}));
  EXPECT_FALSE(book_.HandleReceived(AgentId(0), Received(number, 0xFF)));
  EXPECT_FALSE(book_.HandleSent(AgentId(2), {number, 0xFF, 70}));
  EXPECT_FALSE(book_.HandleSent(AgentId(0), {number + 1, 0xFF, 70})) << "of no train";
  EXPECT_FALSE(book_.HandleSent(AgentId(0), {number, 0xFF, 70}));
  EXPECT_TRUE(book_.HandleReceived(AgentId(1), Received(number, 0xFF)));
}

TEST_F(Book, ATrainThatOnlyOneEndReportsIsVoid) {
  const std::uint64_t number = Expect();
  EXPECT_FALSE(book_.HandleSent(AgentId(0), {number, 0xFF, 70}));
  book_.Expire(now_ + TrainBook::kPatience - 1ms);
  EXPECT_EQ(book_.under_way(), 1U);
  book_.Expire(now_ + TrainBook::kPatience);
  EXPECT_EQ(book_.under_way(), 0U);
  EXPECT_EQ(book_.lost_reports(), 1U);
  EXPECT_FALSE(book_.HandleReceived(AgentId(1), Received(number, 0xFF)));
}

}  // namespace
}  // namespace espalier::controller
