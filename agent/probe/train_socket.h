#pragma once

#include <cstdint>
#include <functional>

#include "agent/probe/train_packet.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::agent {

// A packet of a probe train that has arrived, as it says itself and as the kernel saw it.
struct TrainArrival {
  TrainPayload payload;
  std::int64_t arrived_ns = 0;  // by the clock that stamps payload.sent_ns on the sending host
  bool is_marked = false;       // congestion experienced (CE)
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint8_t protocol = 17;
};

// Sends and receives the packets of probe trains: raw sockets (agent/probe) or a simulated fabric.
// Thread safety: the agent's loop thread.
class TrainSocket {
 public:
  virtual ~TrainSocket() = default;
  // Stamps a packet with the time and sends it.
  // Errors: kUnavailable when the send buffer is full, kUnsupported, kFailedPrecondition without a
  // route, kInvalidArgument for a source address that is not this host's.
  virtual Result<void> Send(const TrainPacket& packet) = 0;
  // Receives packets of trains to this port, and of no other one; 0: none. The same port again
  // changes nothing. Errors: kUnsupported; kFailedPrecondition if a program has this port.
  virtual Result<void> Listen(std::uint16_t port) = 0;
  virtual void OnArrival(std::function<void(const TrainArrival&)> callback) = 0;
  // Calls back the packets that have arrived and wait to be read. Bounded work; never blocks.
  virtual void HandleReady() = 0;
  // The number of packets that arrived but were dropped as the sockets were full. Never falls.
  virtual std::uint64_t Dropped() = 0;
};

}  // namespace espalier::agent
