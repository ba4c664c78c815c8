#include "agent/probe/train_sender.h"

#include <gmock/gmock.h>

#include "tests/agent/probe/train_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TrainSenderTest : public TrainTest {
 protected:
  // The masks of the reported trains, by number.
  std::map<std::uint64_t, int> Masks() {
    std::map<std::uint64_t, int> masks;
    for (const wire::SentTrain& train : Sent()) masks[train.number] = train.sent_mask;
    return masks;
  }
  // Orders the train, waits, and returns its mask.
  int MaskOf(const wire::TrainOrder& order) {
    Give(order);
    Live(2 * kSecond);
    return Masks()[order.trains.front().number];
  }
};

TEST_F(TrainSenderTest, SendsEachPacketAsOrdered) {
  Give(Sending(5, 1));
  Live(2 * kSecond);
  ASSERT_THAT(trains_.sent, SizeIs(4));
  for (std::uint8_t i = 0; i < 4; ++i) {
    const TrainPacket& packet = trains_.sent[i];
    EXPECT_EQ(packet.source, Address("10.0.0.1"));
    EXPECT_EQ(packet.destination, Address("10.1.0.1"));
    EXPECT_EQ(packet.source_port, 0xC000);
    EXPECT_EQ(packet.destination_port, kPort);
    EXPECT_EQ(packet.protocol, 17);
    EXPECT_EQ(packet.traffic_class, 26 << 2 | kEcnCapable);
    EXPECT_EQ(packet.ttl, 16);
    EXPECT_EQ(packet.number, 5U);
    EXPECT_EQ(packet.index, i);
    EXPECT_EQ(packet.token, fabric::TrainToken(Key(), 5, i));
  }
  EXPECT_THAT(Sent(), ElementsAre(wire::SentTrain{5, 0xF, 3'000}));
  EXPECT_EQ(Count("sent"), 4);
}

TEST_F(TrainSenderTest, SegmentsOfTcpAreNotCapableOfEcn) {
  wire::TrainOrder order = Sending(1, 1);
  order.trains[0].protocol = wire::kProtocolTcp;
  order.trains[0].dscp = 10;
  EXPECT_EQ(MaskOf(order), 0xF);
  EXPECT_EQ(trains_.sent[0].protocol, 6);
  EXPECT_EQ(trains_.sent[0].traffic_class, 10 << 2);
}

TEST_F(TrainSenderTest, KeepsStartAndGaps) {
  wire::TrainOrder order = Sending(1, 2);
  order.trains[1].start_us = 2'000;
  Give(order);
  std::vector<std::size_t> counts;
  for (int i = 0; i < 6; ++i) {
    counts.push_back(trains_.sent.size());
    Step(kMs);
  }
  EXPECT_THAT(counts, ElementsAre(1, 2, 4, 6, 7, 8));
}

TEST_F(TrainSenderTest, ShortGapsAreSentInOneGo) {
  wire::TrainOrder order = Sending(1, 1, 16);
  order.gap_us = 299;
  Give(order);
  EXPECT_THAT(trains_.sent, SizeIs(16));
  Live(2 * kSecond);
  EXPECT_THAT(Sent(), ElementsAre(wire::SentTrain{1, 0xFFFF, 0}));
}

TEST_F(TrainSenderTest, ABusyHostKeepsTheGaps) {
  wire::TrainOrder order = Sending(1, 1);
  order.gap_us = 5'000;
  Give(order);
  loop_.Oversleep(7 * kMs);
  EXPECT_THAT(trains_.sent, SizeIs(2));
  Step(4 * kMs);
  EXPECT_THAT(trains_.sent, SizeIs(2));
  Step(kMs);
  EXPECT_THAT(trains_.sent, SizeIs(3));
  Live(2 * kSecond);
  EXPECT_THAT(Sent(), ElementsAre(wire::SentTrain{1, 0xF, 17'000}));
}

TEST_F(TrainSenderTest, PacketsThatTheSocketRefusesAreAbsentFromTheMask) {
  Give(Sending(1, 1));
  trains_.refused_sends = 2;
  Live(2 * kSecond);
  EXPECT_THAT(Masks(), ElementsAre(std::pair(1, 0b1001)));
  EXPECT_EQ(Count("sent"), 2);
}

TEST_F(TrainSenderTest, AnOrderBeyondTheLimitsIsNotSent) {
  const auto changed = [](auto change) {
    wire::TrainOrder order = Sending(1, 1);
    change(order);
    return order;
  };
  EXPECT_EQ(MaskOf(changed([](auto& o) { o.destination_port = 1'023; })), 0);
  EXPECT_EQ(MaskOf(changed([](auto& o) { o.addresses[0] = Address("10.0.0.2"); })), 0);
  for (const char* to :
       {"224.0.0.1", "255.255.255.255", "240.0.0.1", "0.0.0.0", "::", "ff02::1", "fd00::1"}) {
    EXPECT_EQ(MaskOf(changed([&](auto& o) { o.addresses[1] = Address(to); })), 0) << to;
  }
  EXPECT_EQ(MaskOf(changed([](auto& o) { o.trains[0].start_us = 10'000'001; })), 0);
  EXPECT_EQ(MaskOf(changed([](auto& o) { o.trains[0].start_us = 3'000'000'000'000'000; })), 0);
  EXPECT_EQ(MaskOf(changed([](auto& o) { o.gap_us = 3'333'334; })), 0);
  EXPECT_EQ(MaskOf(changed([](auto& o) { o.gap_us = 3'000'000'000'000'000; })), 0);
  EXPECT_THAT(trains_.sent, IsEmpty());
  EXPECT_EQ(MaskOf(changed([](auto& o) { o.destination_port = 1'024; })), 0xF);
}

TEST_F(TrainSenderTest, ANewNicMaySend) {
  wire::TrainOrder order = Sending(1, 1);
  order.addresses[0] = Address("10.0.0.2");
  EXPECT_EQ(MaskOf(order), 0);
  agent_->HandleNic({.address = Address("10.0.0.2"), .device = "eth1", .link_up = true});
  EXPECT_EQ(MaskOf(order), 0xF);
}

// All ways to spend share one budget: trains of one order and of several, of both protocols, with
// and without gaps.
TEST_F(TrainSenderTest, TheBudgetHoldsForAllTrainsTogether) {
  for (int i = 0; i < 40; ++i) {
    wire::TrainOrder order = Sending(1 + 100 * static_cast<std::uint64_t>(i), 10, 16);
    order.gap_us = i % 2 == 0 ? 0 : 1'000;
    order.trains[3].protocol = wire::kProtocolTcp;
    Give(order);
  }
  EXPECT_LE(trains_.sent.size(), 512U);
  Step(100 * kMs);
  EXPECT_EQ(trains_.sent.size(), 512U);
  Live(2 * kSecond);
  const auto masks = Masks();
  EXPECT_THAT(masks, SizeIs(400));
  EXPECT_EQ(std::ranges::count_if(masks, [](const auto& m) { return m.second == 0xFFFF; }), 32);
  EXPECT_EQ(std::ranges::count_if(masks, [](const auto& m) { return m.second == 0; }), 368);
  // A second later there is room for a burst again, and not for more.
  const std::size_t before = trains_.sent.size();
  Give(Sending(10'000, 200, 16));
  Step(100 * kMs);
  EXPECT_EQ(trains_.sent.size() - before, 512U);
}

TEST_F(TrainSenderTest, TheBudgetRefillsAtItsRate) {
  Give(Sending(1, 64, 8));
  Step(10 * kMs);
  EXPECT_THAT(trains_.sent, SizeIs(512));
  std::size_t sent = 0;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    const std::size_t before = trains_.sent.size();
    Give(Sending(1'000 + 10 * i, 5, 1));
    Step(kMs);
    sent += trains_.sent.size() - before;
  }
  EXPECT_NEAR(static_cast<double>(sent), 2'000, 25);
}

TEST_F(TrainSenderTest, TrainsBeyondTheMostOpenOnesAreNotSent) {
  wire::TrainOrder order = Sending(1, 1'000, 1);
  for (wire::Train& train : order.trains) train.start_us = 5'000'000;
  Give(order);
  for (std::size_t i = 0; i < order.trains.size(); ++i) order.trains[i].number = 2'000 + i;
  order.trains.resize(100);
  Give(order);
  Live(2 * kSecond);
  EXPECT_THAT(Masks(), SizeIs(76));  // 1,024 wait
}

TEST_F(TrainSenderTest, TrainsOfALostControllerAreNotSent) {
  wire::TrainOrder order = Sending(1, 2);
  order.trains[1].start_us = 100'000;
  Give(order);
  Step(2 * kMs);
  const std::size_t before = trains_.sent.size();
  controller_alive_ = false;
  bus_.Deliver(wire::Heartbeat{}, kController + 1);  // another controller has taken over
  Live(kSecond);
  EXPECT_EQ(trains_.sent.size(), before);
  Welcome(kController + 1);
  Live(2 * kSecond);
  EXPECT_THAT(Sent(), IsEmpty());
}

}  // namespace
}  // namespace espalier::agent
