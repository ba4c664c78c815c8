#pragma once

#include <cstdint>
#include <span>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/state/flows/flow_table.h"

namespace espalier::controller {

// What one probe train has shown, once its sender and its receiver have both reported it.
//
// A packet counts if the next one of its train proves that no queue on the path was long at that
// time, so that congestion cannot have dropped it. `lost` are the packets that count and did not
// arrive.
struct TrainOutcome {
  TimePoint at{};  // when it was sent, about
  AgentId sender;
  AgentId receiver;
  std::uint8_t protocol = 0;
  std::uint16_t port = 0;
  std::uint32_t route = 0;  // its place in TestRoutes
  std::uint8_t sent = 0;    // packets
  std::uint8_t arrived = 0;
  std::uint8_t counted = 0;
  std::uint8_t lost = 0;
  std::int64_t queue_us = -1;     // at most as long was the queue for some packet; -1: unknown
  fabric::DirectedLink uplink;    // of the sender's NIC
  fabric::DirectedLink downlink;  // to the receiver's NIC
  std::span<const fabric::DirectedLink> hops;  // between switches, in the PathTable

  bool IsSilent() const { return arrived == 0; }
  bool IsBad() const { return lost > 0; }
  template <typename Visit>
  void ForEachLink(Visit visit) const {
    visit(uplink);
    for (const fabric::DirectedLink hop : hops) visit(hop);
    visit(downlink);
  }
  bool Crosses(fabric::DirectedLink link) const {
    bool crosses = false;
    ForEachLink([&](fabric::DirectedLink hop) { crosses = crosses || hop == link; });
    return crosses;
  }
};

}  // namespace espalier::controller
