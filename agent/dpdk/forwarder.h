#pragma once

#include <atomic>
#include <cstdint>

#include "agent/dpdk/flows/packet_steering.h"
#include "common/base/time/event_loop.h"

namespace espalier::dpdk {

// Forwards frames between two ports on one core, and steers those from the host to the fabric. It
// runs to completion burst by burst without queues of its own: frames that the port does not take
// after some tries are dropped, as from any full queue, and counted.
// Thread safety: one thread; the counts: any thread.
class Forwarder {
 public:
  struct Ports {
    std::uint16_t host = 0;
    std::uint16_t fabric = 0;
    std::uint16_t queue = 0;  // of both ports
  };

  Forwarder(DatapathFlowTable& table, std::size_t core, const IcrcPatch& patch, const Ports& ports)
      : steering_(table, core, patch), ports_(ports) {}

  // Forward one burst; return the number of frames received.
  std::uint32_t ForwardToFabric(std::uint32_t now_us);
  std::uint32_t ForwardToHost(std::uint32_t now_us);
  // Forwards in both directions until `stop`. Sleeps for idle_sleep after receiving nothing.
  void Run(const std::atomic<bool>& stop, Duration idle_sleep);

  PacketSteering& steering() { return steering_; }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint16_t kBurst = 64;

  PacketSteering steering_;
  const Ports ports_;
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace espalier::dpdk
