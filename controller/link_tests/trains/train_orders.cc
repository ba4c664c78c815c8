#include "controller/link_tests/trains/train_orders.h"

#include <utility>

namespace espalier::controller {
wire::TrainOrder& TrainOrders::OrderOf(AgentId agent) {
  const auto [order, is_new] = orders_.try_emplace(agent);
  if (is_new) {
    order->second.key = std::string(wire::kTrainKeyBytes, '\0');
    order->second.destination_port = shape_.destination_port;
    order->second.packets = shape_.packets;
    order->second.gap_us = static_cast<std::uint64_t>(MicrosecondsOf(shape_.gap));
    order->second.urgent = shape_.urgent;
  }
  return order->second;
}

std::uint32_t TrainOrders::IndexOf(AgentId agent, const IpAddress& address) {
  auto& table = OrderOf(agent).addresses;
  const auto next = static_cast<std::uint32_t>(table.size());
  const auto [place, is_new] = addresses_.try_emplace({agent, address}, next);
  if (is_new) table.push_back(address);
  return place->second;
}

void TrainOrders::Add(const Ends& ends, wire::Train train) {
  train.source = IndexOf(ends.sender, ends.source);
  train.destination = IndexOf(ends.sender, ends.destination);
  wire::TrainOrder& sent = OrderOf(ends.sender);
  sent.key = ends.key;
  sent.trains.push_back(train);
  const std::uint64_t until =
      train.start_us +
      static_cast<std::uint64_t>(MicrosecondsOf(shape_.gap * shape_.packets + shape_.patience));
  const std::uint32_t source = IndexOf(ends.receiver, ends.source);
  OrderOf(ends.receiver)
      .expected.push_back({.number = train.number,
                           .until_us = until,
                           .source = source,
                           .source_port = train.source_port,
                           .protocol = train.protocol});
}

std::map<AgentId, wire::TrainOrder> TrainOrders::Take() {
  addresses_.clear();
  return std::exchange(orders_, {});
}

}  // namespace espalier::controller
