#include "agent/probe/train_receiver.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/agent/probe/train_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TrainReceiverTest : public TrainTest {
 protected:
  wire::ReceivedTrain Only() {
    Live(2 * kSecond);
    const auto received = Received();
    EXPECT_THAT(received, SizeIs(1));
    return received.empty() ? wire::ReceivedTrain{} : received[0];
  }
};

TEST_F(TrainReceiverTest, ReportsWhatArrivedInAnyOrder) {
  Give(Expecting(9, 1));
  EXPECT_EQ(trains_.port, kPort);
  TrainArrival marked = Arrival(9, 2, 2'000'000);
  marked.is_marked = true;
  trains_.Arrive(marked);
  trains_.Arrive(Arrival(9, 0, -1'500'000));
  trains_.Arrive(Arrival(9, 3, 3'999));
  const wire::ReceivedTrain train = Only();
  EXPECT_EQ(train.number, 9U);
  EXPECT_EQ(train.arrived_mask, 0b1101);
  EXPECT_EQ(train.marked_mask, 0b0100);
  EXPECT_EQ(train.digest, fabric::TrainToken(Key(), 9, 0) ^ fabric::TrainToken(Key(), 9, 2) ^
                              fabric::TrainToken(Key(), 9, 3));
  EXPECT_FALSE(train.overflowed);
  EXPECT_THAT(train.delays_us, ElementsAre(-1'500, 2'000, 3));
  EXPECT_EQ(Count("arrived"), 3);
}

TEST_F(TrainReceiverTest, ReportsATrainOfWhichNothingCame) {
  Give(Expecting(9, 1));
  EXPECT_EQ(Only(), (wire::ReceivedTrain{.number = 9}));
}

TEST_F(TrainReceiverTest, DuplicatesCountOnce) {
  Give(Expecting(9, 1));
  for (int i = 0; i < 3; ++i) Arrive(9, 1);
  const wire::ReceivedTrain train = Only();
  EXPECT_EQ(train.arrived_mask, 0b10);
  EXPECT_EQ(train.digest, fabric::TrainToken(Key(), 9, 1));
  EXPECT_THAT(train.delays_us, SizeIs(1));
  EXPECT_EQ(Count("arrived"), 1);
  EXPECT_EQ(Count("unexpected"), 2);
}

TEST_F(TrainReceiverTest, PacketsOfStrangersChangeNothing) {
  Give(Expecting(9, 1));
  Arrive(10, 0);
  Arrive(9, 4);  // beyond the train
  Arrive(9, 255);
  EXPECT_EQ(Count("unexpected"), 3);
  EXPECT_EQ(Only(), (wire::ReceivedTrain{.number = 9}));
}

// A sender that takes another path than ordered would show that a dead link works.
TEST_F(TrainReceiverTest, PacketsFromAnotherPortOrAddressOrOfAnotherProtocolDoNotCount) {
  wire::TrainOrder order = Expecting(9, 1);
  order.addresses = {Address("10.9.0.1"), Address("10.1.0.1")};
  order.expected[0].source = 1;
  order.expected[0].source_port = 50'000;
  order.expected[0].protocol = wire::kProtocolTcp;
  Give(order);
  TrainArrival right = Arrival(9, 0);
  right.source_port = 50'000;
  right.protocol = wire::kProtocolTcp;
  TrainArrival wrong = right;
  wrong.source_port = 50'001;
  trains_.Arrive(wrong);
  wrong = right;
  wrong.source = Address("10.1.0.2");
  trains_.Arrive(wrong);
  wrong = right;
  wrong.protocol = wire::kProtocolUdp;
  trains_.Arrive(wrong);
  EXPECT_EQ(Count("unexpected"), 3);
  right.payload.index = 1;
  trains_.Arrive(right);
  EXPECT_EQ(Only().arrived_mask, 0b10);
}

TEST_F(TrainReceiverTest, ReplaysAfterTheReportChangeNothing) {
  Give(Expecting(9, 1));
  for (std::uint8_t i = 0; i < 4; ++i) Arrive(9, i);
  EXPECT_EQ(Only().arrived_mask, 0xF);
  for (std::uint8_t i = 0; i < 4; ++i) Arrive(9, i);
  Live(2 * kSecond);
  EXPECT_THAT(Reports(), IsEmpty());
  EXPECT_EQ(Count("unexpected"), 4);
}

TEST_F(TrainReceiverTest, LatePacketsDoNotCount) {
  Give(Expecting(9, 1, 100 * kMs));
  Arrive(9, 0);
  Step(101 * kMs);
  Arrive(9, 1);
  EXPECT_EQ(Only().arrived_mask, 0b1);
}

TEST_F(TrainReceiverTest, PacketsThatAnAgentHasNotYetReadCount) {
  Give(Expecting(9, 1, 100 * kMs));
  trains_.unread = {Arrival(9, 0), Arrival(9, 3)};
  EXPECT_EQ(Only().arrived_mask, 0b1001);
}

TEST_F(TrainReceiverTest, TimesOfHostilePacketsAreSafe) {
  Give(Expecting(9, 1));
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  TrainArrival arrival = Arrival(9, 0);
  arrival.payload.sent_ns = kLeast;
  arrival.arrived_ns = kMost;
  trains_.Arrive(arrival);
  arrival.payload.index = 1;
  std::swap(arrival.payload.sent_ns, arrival.arrived_ns);
  trains_.Arrive(arrival);
  EXPECT_THAT(Only().delays_us, SizeIs(2));
}

TEST_F(TrainReceiverTest, LossesOfTheOwnSocketMakeTrainsVoid) {
  Give(Expecting(1, 1));
  Live(2 * kSecond);
  Give(Expecting(9, 1));
  Arrive(9, 0);
  trains_.dropped += 1;
  Live(2 * kSecond);
  Give(Expecting(11, 1));
  Live(2 * kSecond);
  EXPECT_THAT(Received(), ElementsAre(Field(&wire::ReceivedTrain::overflowed, false),
                                      Field(&wire::ReceivedTrain::overflowed, true),
                                      Field(&wire::ReceivedTrain::overflowed, false)));
}

TEST_F(TrainReceiverTest, APortThatCannotBeHadMakesTrainsVoid) {
  trains_.is_taken = true;
  Give(Expecting(9, 1));
  EXPECT_EQ(Only(), (wire::ReceivedTrain{.number = 9, .overflowed = true}));
  trains_.is_taken = false;
  wire::TrainOrder order = Expecting(10, 1);
  order.destination_port = 1'023;
  Give(order);
  EXPECT_EQ(Only(), (wire::ReceivedTrain{.number = 10, .overflowed = true}));
}

TEST_F(TrainReceiverTest, TrainsBeyondTheLimitAreVoid) {
  for (std::uint64_t i = 0; i < 5; ++i) Give(Expecting(10'000 * (i + 1), 1'000));
  Arrive(10'000, 0);
  Live(2 * kSecond);
  std::size_t expected = 0;
  const auto received = Received();
  for (const wire::ReceivedTrain& train : received) expected += train.overflowed ? 0U : 1U;
  EXPECT_THAT(received, SizeIs(5'000));
  EXPECT_EQ(expected, 4'096U);
}

TEST_F(TrainReceiverTest, ARepeatedNumberIsOneTrain) {
  Give(Expecting(9, 1));
  Arrive(9, 0);
  Give(Expecting(9, 1));
  Arrive(9, 1);
  EXPECT_EQ(Only().arrived_mask, 0b11);
}

TEST_F(TrainReceiverTest, TheSocketClosesSomeTimeAfterTheLastTrain) {
  Give(Expecting(9, 1));
  Live(5 * kSecond);
  EXPECT_EQ(trains_.port, kPort);
  Give(Expecting(10, 1));
  Live(9 * kSecond);
  EXPECT_EQ(trains_.port, kPort);
  Live(3 * kSecond);
  EXPECT_EQ(trains_.port, 0);
}

TEST_F(TrainReceiverTest, TrainsOfALostControllerAreForgotten) {
  Give(Expecting(9, 1));
  bus_.Deliver(wire::Heartbeat{}, kController + 1);  // another controller has taken over
  EXPECT_EQ(trains_.port, 0);
  Welcome(kController + 1);
  Arrive(9, 0);
  Live(2 * kSecond);
  EXPECT_THAT(Received(), IsEmpty());
  EXPECT_EQ(Count("unexpected"), 1);
}

}  // namespace
}  // namespace espalier::agent
