#include "agent/sim/sim_trains.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/fabric/builders.h"
#include "common/sim/sim_fabric.h"
#include "common/sim/sim_world.h"

namespace espalier::sim {
namespace {

using namespace std::chrono_literals;
using fabric::DirectedLink;

constexpr std::uint16_t kPort = 4'900;

class SimTrainsTest : public testing::Test {
 protected:
  SimTrainsTest() {
    auto spec = fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}).value();
    for (fabric::Node& node : spec.nodes) {
      if (node.kind == fabric::NodeKind::kSwitch) node.ecmp = {"crc32", 1};
    }
    fabric_ = SimFabric::Build(*loop_, fabric::Topology::Build(std::move(spec)).value()).value();
    trains_ = std::make_unique<SimTrains>(
        [this](const auto& tuple, std::uint8_t dscp) { return fabric_->Carry(tuple, dscp); },
        *loop_);
    for (int i = 0; i < 4; ++i) {
      sockets_.push_back(std::make_unique<SimTrainSocket>(*trains_, Address(i)));
      EXPECT_TRUE(sockets_.back()->Listen(kPort));
      sockets_.back()->OnArrival(
          [this](const agent::TrainArrival& arrival) { arrived_.push_back(arrival); });
    }
  }

  IpAddress Address(int host) const {
    const auto node = fabric_->topology().FindNode(fmt::format("h{}", host));
    return fabric_->topology().node(*node).addresses.front();
  }
  agent::TrainPacket Packet(std::uint16_t port = 0xC000, std::uint8_t protocol = 17,
                            std::uint8_t dscp = 26) const {
    return {.source = Address(0),
            .destination = Address(2),
            .source_port = port,
            .destination_port = kPort,
            .protocol = protocol,
            .traffic_class = static_cast<std::uint8_t>(dscp << 2 | agent::kEcnCapable),
            .number = 1,
            .index = 2,
            .token = 3};
  }
  DirectedLink FirstHop(std::uint16_t port) const {
    return fabric_
        ->Trace({.source = Address(0),
                 .destination = Address(2),
                 .source_port = port,
                 .destination_port = kPort})
        .hops.front();
  }
  // Sends the packet so many times and returns the number of arrivals.
  std::size_t Send(const agent::TrainPacket& packet, int times = 1) {
    arrived_.clear();
    for (int i = 0; i < times; ++i) EXPECT_TRUE(sockets_[0]->Send(packet));
    world_.RunFor(1s);
    return arrived_.size();
  }

  SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  std::unique_ptr<SimFabric> fabric_;
  std::unique_ptr<SimTrains> trains_;
  std::vector<std::unique_ptr<SimTrainSocket>> sockets_;
  std::vector<agent::TrainArrival> arrived_;
};

TEST_F(SimTrainsTest, PacketsArriveAfterEachLinksDelay) {
  ASSERT_EQ(Send(Packet()), 1U);
  EXPECT_EQ(arrived_[0].payload.number, 1U);
  EXPECT_EQ(arrived_[0].payload.index, 2U);
  EXPECT_EQ(arrived_[0].payload.token, 3U);
  EXPECT_EQ(arrived_[0].source, Address(0));
  EXPECT_EQ(arrived_[0].destination, Address(2));
  EXPECT_EQ(arrived_[0].arrived_ns - arrived_[0].payload.sent_ns, 20'000);
  EXPECT_FALSE(arrived_[0].is_marked);
  fabric_->troubles().SetDelay(FirstHop(0xC000), 3ms);
  fabric_->troubles().SetMarking(FirstHop(0xC000), true);
  ASSERT_EQ(Send(Packet()), 1U);
  EXPECT_EQ(arrived_[0].arrived_ns - arrived_[0].payload.sent_ns, 3'020'000);
  EXPECT_TRUE(arrived_[0].is_marked);
  agent::TrainPacket unmarked = Packet();
  unmarked.traffic_class = 0;
  ASSERT_EQ(Send(unmarked), 1U);
  EXPECT_FALSE(arrived_[0].is_marked);
}

TEST_F(SimTrainsTest, ClocksOfHostsDiffer) {
  sockets_[0]->SetClock(5ms);
  sockets_[2]->SetClock(-2ms);
  ASSERT_EQ(Send(Packet()), 1U);
  EXPECT_EQ(arrived_[0].arrived_ns - arrived_[0].payload.sent_ns, 20'000 - 7'000'000);
}

TEST_F(SimTrainsTest, LossesFollowTheRuleOfTheirLink) {
  const DirectedLink link = FirstHop(0xC000);
  std::uint16_t other = 0xC001;
  while (FirstHop(other) == link) ++other;
  fabric_->troubles().SetLoss(link, {.probability = 0.25});
  EXPECT_NEAR(static_cast<double>(Send(Packet(), 2'000)), 1'500, 100);
  EXPECT_EQ(Send(Packet(other), 100), 100U);
  fabric_->troubles().SetLoss(link, {.probability = 1, .protocol = 6});
  EXPECT_EQ(Send(Packet(), 100), 100U);
  fabric_->troubles().SetLoss(link, {.probability = 1, .protocol = 17, .dscp = 25});
  EXPECT_EQ(Send(Packet(), 100), 100U);
  fabric_->troubles().SetLoss(link, {.probability = 1, .dscp = 26});
  EXPECT_EQ(Send(Packet(), 100), 0U);
  fabric_->troubles().SetLoss(link, {});
  EXPECT_EQ(Send(Packet(), 100), 100U);
}

TEST_F(SimTrainsTest, LinksOfHostsLosePackets) {
  fabric_->troubles().SetLoss(*fabric_->Downlink(Address(0)), {.probability = 1});
  fabric_->troubles().SetLoss(*fabric_->Uplink(Address(2)), {.probability = 1});
  EXPECT_EQ(Send(Packet(), 10), 10U);
  fabric_->troubles().SetLoss(*fabric_->Downlink(Address(2)), {.probability = 1});
  EXPECT_EQ(Send(Packet(), 10), 0U);
  fabric_->troubles().SetLoss(*fabric_->Downlink(Address(2)), {});
  fabric_->troubles().SetLoss(*fabric_->Uplink(Address(0)), {.probability = 1});
  EXPECT_EQ(Send(Packet(), 10), 0U);
}

TEST_F(SimTrainsTest, TheSameSeedLosesTheSamePackets) {
  const auto run = [this](std::uint64_t seed) {
    fabric_->troubles().SetSeed(seed);
    std::vector<std::size_t> arrivals;
    for (int i = 0; i < 50; ++i) arrivals.push_back(Send(Packet()));
    return arrivals;
  };
  fabric_->troubles().SetLoss(FirstHop(0xC000), {.probability = 0.5});
  const auto first = run(7);
  EXPECT_EQ(run(7), first);
  EXPECT_NE(run(8), first);
}

TEST_F(SimTrainsTest, OnlyOwnAddressesAndTheRightPortAreServed) {
  agent::TrainPacket packet = Packet();
  packet.source = Address(1);
  EXPECT_FALSE(sockets_[0]->Send(packet));
  packet = Packet();
  packet.destination_port = kPort + 1;
  EXPECT_EQ(Send(packet), 0U);
  packet = Packet();
  packet.destination = IpAddress::FromV4(1);
  EXPECT_EQ(Send(packet), 0U);
  fabric_->SetLink(fabric_->Uplink(Address(2))->link, fabric::LinkState::kDown);
  EXPECT_EQ(Send(Packet()), 0U);
}

}  // namespace
}  // namespace espalier::sim
