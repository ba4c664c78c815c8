#pragma once

#include <cstdint>
#include <deque>

#include "agent/flows/port_table.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

// The paths that flows have left by themselves a moment ago. Orders of the controller may have been
// under way when it heard of that, and would bring the dead paths back.
// Thread safety: the agent's loop thread. Complexity: O(moves of the last kCrossing).
class RecentMoves {
 public:
  // How long such an order may be under way.
  static constexpr Duration kCrossing = std::chrono::milliseconds(200);

  void Add(TimePoint now, wire::LocalFlowId flow, std::uint16_t left_port, wire::FlowPath next) {
    moves_.push_back({now, flow, left_port, std::move(next)});
  }
  // Moves flows again that an order has brought back.
  void Repeat(TimePoint now, PortTable& ports);

 private:
  struct Move {
    TimePoint at;
    wire::LocalFlowId flow;
    std::uint16_t left_port = 0;
    wire::FlowPath next;
  };
  std::deque<Move> moves_;
};

}  // namespace espalier::agent
