#pragma once

#include <string>
#include <vector>

#include "common/fabric/ecmp/train_token.h"
#include "tests/agent/agent_fixture.h"

namespace espalier::agent {

// An agent with the NIC 10.0.0.1 gets orders of trains from the test, which acts as controller and
// as network.
class TrainTest : public AgentTest {
 protected:
  static constexpr std::uint16_t kPort = 4'900;

  void SetUp() override { Sync(); }

  static std::string Key() { return "0123456789abcdef"; }
  // An order that sends so many trains, numbered from `first`, at once.
  static wire::TrainOrder Sending(std::uint64_t first, std::size_t trains,
                                  std::uint8_t packets = 4) {
    wire::TrainOrder order{.key = Key(),
                           .destination_port = kPort,
                           .packets = packets,
                           .gap_us = 1'000,
                           .addresses = {Address("10.0.0.1"), Address("10.1.0.1")}};
    for (std::size_t i = 0; i < trains; ++i) {
      order.trains.push_back({.number = first + i,
                              .source = 0,
                              .destination = 1,
                              .source_port = static_cast<std::uint16_t>(0xC000 + i),
                              .protocol = wire::kProtocolUdp,
                              .dscp = 26});
    }
    return order;
  }
  static wire::TrainOrder Expecting(std::uint64_t first, std::size_t trains,
                                    Duration until = 500 * kMs, std::uint8_t packets = 4) {
    wire::TrainOrder order{.key = Key(), .destination_port = kPort, .packets = packets};
    for (std::size_t i = 0; i < trains; ++i) {
      order.expected.push_back(
          {.number = first + i,
           .until_us = static_cast<std::uint64_t>(
               std::chrono::duration_cast<std::chrono::microseconds>(until).count())});
    }
    return order;
  }
  void Give(wire::TrainOrder order) { bus_.Deliver(std::move(order), kController); }

  static TrainArrival Arrival(std::uint64_t number, std::uint8_t index,
                              std::int64_t delay_ns = 100'000) {
    return {.payload = {.number = number,
                        .index = index,
                        .sent_ns = 1'000'000,
                        .token = fabric::TrainToken(Key(), number, index)},
            .arrived_ns = 1'000'000 + delay_ns,
            .source = Address("10.1.0.1"),
            .destination = Address("10.0.0.1")};
  }
  void Arrive(std::uint64_t number, std::uint8_t index) { trains_.Arrive(Arrival(number, index)); }

  std::vector<wire::TrainReport> Reports() { return bus_.Take<wire::TrainReport>(); }
  std::vector<wire::SentTrain> Sent() {
    std::vector<wire::SentTrain> sent;
    for (const wire::TrainReport& report : Reports()) {
      sent.insert(sent.end(), report.sent.begin(), report.sent.end());
    }
    return sent;
  }
  std::vector<wire::ReceivedTrain> Received() {
    std::vector<wire::ReceivedTrain> received;
    for (const wire::TrainReport& report : Reports()) {
      received.insert(received.end(), report.received.begin(), report.received.end());
    }
    return received;
  }
  std::int64_t Count(const std::string& what) {
    return metrics_.MakeCounter("espalier_agent_train_packets_" + what + "_total", "").Value();
  }
};

}  // namespace espalier::agent
