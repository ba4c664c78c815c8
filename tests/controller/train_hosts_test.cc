#include "tests/controller/train_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/fabric/ecmp/train_token.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class TrainHostsTest : public testing::Test {
 protected:
  TrainHostsTest() {
    cluster_.hash = [](int, int, std::uint16_t port) { return port % 2; };
    trains_.forge = [this](int host, wire::TrainReport& report) {
      for (const wire::SentTrain& train : report.sent) {
        EXPECT_EQ(host, 0);
        sent_[train.number] = train.sent_mask;
      }
      for (const wire::ReceivedTrain& train : report.received) {
        EXPECT_EQ(host, 2);
        received_[train.number] = train;
      }
    };
    cluster_.ConnectAll();
  }

  // Host 0 sends a train to host 2 over this spine.
  void Send(std::uint64_t number, int spine, std::uint8_t protocol = wire::kProtocolUdp) {
    wire::TrainOrder order{.key = "0123456789abcdef",
                           .destination_port = 4'900,
                           .packets = 8,
                           .gap_us = 1'000,
                           .addresses = {cluster_.Address(0), cluster_.Address(2)}};
    wire::TrainOrder expecting = order;
    order.trains = {{.number = number,
                     .source = 0,
                     .destination = 1,
                     .source_port = static_cast<std::uint16_t>(0xC000 + spine),
                     .protocol = protocol}};
    expecting.expected = {{.number = number, .until_us = 100'000}};
    cluster_.on_train_order(2, expecting);
    cluster_.on_train_order(0, order);
    cluster_.Advance(2s);
  }
  fabric::DirectedLink Downlink(int spine) const {
    return cluster_.RouteOf(0, 2, static_cast<std::uint16_t>(0xC000 + spine))[2];
  }

  // The controller orders no trains of its own.
  static ControllerOptions WithoutTests() {
    ControllerOptions options;
    options.link_tests.probes_per_second = 0;
    return options;
  }
  Cluster cluster_{{.spines = 2, .leaves = 2, .hosts_per_leaf = 2}, WithoutTests()};
  TrainHosts trains_{cluster_};
  std::map<std::uint64_t, int> sent_;
  std::map<std::uint64_t, wire::ReceivedTrain> received_;
};

TEST_F(TrainHostsTest, HostsReportWhatArrives) {
  Send(1, 0);
  EXPECT_EQ(sent_[1], 0xFF);
  EXPECT_EQ(received_[1].arrived_mask, 0xFF);
  std::uint64_t digest = 0;
  for (std::uint8_t i = 0; i < 8; ++i) digest ^= fabric::TrainToken("0123456789abcdef", 1, i);
  EXPECT_EQ(received_[1].digest, digest);
  EXPECT_THAT(received_[1].delays_us, testing::Each(20));
}

TEST_F(TrainHostsTest, LinksLoseTheirPackets) {
  trains_.troubles().SetLoss(Downlink(1), {.probability = 1, .protocol = wire::kProtocolTcp});
  Send(1, 0, wire::kProtocolTcp);
  Send(2, 1, wire::kProtocolTcp);
  Send(3, 1, wire::kProtocolUdp);
  EXPECT_EQ(received_[1].arrived_mask, 0xFF);
  EXPECT_EQ(sent_[2], 0xFF);
  EXPECT_EQ(received_[2].arrived_mask, 0);
  EXPECT_EQ(received_[3].arrived_mask, 0xFF);
}

TEST_F(TrainHostsTest, DeadLinksAndDarkSpinesLoseAllTrains) {
  cluster_.dead = {Downlink(1).link};
  Send(1, 0);
  Send(2, 1);
  cluster_.dark_spines = {0};
  Send(3, 0);
  EXPECT_EQ(received_[1].arrived_mask, 0xFF);
  EXPECT_EQ(received_[2].arrived_mask, 0);
  EXPECT_EQ(received_[3].arrived_mask, 0);
}

}  // namespace
}  // namespace espalier::controller
