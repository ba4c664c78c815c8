#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/time/event_loop.h"

namespace espalier::dpdk {

// When a flow is busy, by the packets that cores have counted. Edges are as precise as Update is
// frequent.
//
// A flow is busy from its first packet until the last one before a pause. While packets are
// unacknowledged, only a long pause counts: the sender waits for its window, or for a timeout.
// Thread safety: none. Complexity: O(1).
class PacketActivity {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(5);
  static constexpr Duration kPauseInFlight = std::chrono::seconds(1);

  // The flow has just sent its first packet.
  explicit PacketActivity(TimePoint now) : last_edge_(now), last_packet_(now) {}

  void Update(bool has_sent, bool is_in_flight, TimePoint now) {
    if (has_sent) {
      last_packet_ = now;
      if (!IsBusy()) AddEdge(now);
    } else if (IsBusy() && now - last_packet_ >= (is_in_flight ? kPauseInFlight : kPause)) {
      AddEdge(last_packet_);
    }
  }

  bool IsBusy() const { return edges_ % 2 == 1; }
  // Changes between busy and idle, never 0. Odd: busy.
  std::uint32_t edges() const { return edges_; }
  TimePoint last_edge() const { return last_edge_; }
  Duration between() const { return between_; }  // from the edge before it to the last one
  TimePoint last_packet() const { return last_packet_; }

 private:
  void AddEdge(TimePoint at) {
    ++edges_;
    between_ = at - last_edge_;
    last_edge_ = at;
  }

  std::uint32_t edges_ = 1;
  TimePoint last_edge_;
  Duration between_{};
  TimePoint last_packet_;
};

}  // namespace espalier::dpdk
