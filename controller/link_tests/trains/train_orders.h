#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "common/base/address/ip_address.h"
#include "common/base/time/event_loop.h"
#include "controller/state/flows/flow_table.h"
#include "proto/messages.h"

namespace espalier::controller {

// Collects trains into one order for each agent, of what it is to send and to expect.
class TrainOrders {
 public:
  struct Shape {
    std::uint16_t destination_port = 0;
    std::uint8_t packets = 8;
    Duration gap{};
    Duration patience{};  // of receivers, after the last packet should have been sent
    bool urgent = false;
  };
  explicit TrainOrders(const Shape& shape) : shape_(shape) {}

  struct Ends {
    AgentId sender;
    AgentId receiver;
    IpAddress source;
    IpAddress destination;
    std::string key;  // of the sender
  };
  // `train.source` and `train.destination` need not be set.
  void Add(const Ends& ends, wire::Train train);
  const Shape& shape() const { return shape_; }
  // The orders by agent, which are taken away.
  std::map<AgentId, wire::TrainOrder> Take();

 private:
  wire::TrainOrder& OrderOf(AgentId agent);
  std::uint32_t IndexOf(AgentId agent, const IpAddress& address);

  const Shape shape_;
  std::map<AgentId, wire::TrainOrder> orders_;
  std::map<std::pair<AgentId, IpAddress>, std::uint32_t> addresses_;  // places in the tables
};

}  // namespace espalier::controller
