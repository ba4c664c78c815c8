#pragma once

#include <atomic>
#include <cstdint>

#include "agent/dpdk/flows/packet_steering.h"
#include "common/base/event_loop.h"

namespace espalier::dpdk {

// One core's way between two ports: what comes in at one goes out at the other, steered on its way
// from the host to the fabric. It runs to completion burst by burst, and holds nothing back: what
// the port does not take after some tries is lost, as in any full queue, and counted.
// Thread safety: one thread; the counts: any.
class Forwarder {
 public:
  struct Ports {
    std::uint16_t host = 0;
    std::uint16_t fabric = 0;
    std::uint16_t queue = 0;  // of both
  };

  Forwarder(DatapathFlowTable& table, std::size_t core, const IcrcPatch& patch, const Ports& ports)
      : steering_(table, core, patch), ports_(ports) {}

  // A burst each way; how many frames moved.
  std::uint32_t ForwardToFabric(std::uint32_t now_us);
  std::uint32_t ForwardToHost(std::uint32_t now_us);
  // Until `stop`. A core that finds nothing rests that long.
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
