#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "agent/flows/flow_meter.h"
#include "common/base/address/ip_address.h"
#include "common/base/time/event_loop.h"

namespace espalier::agent {

// Notices that peers repeat requests which a NIC of this host has received already. They have not
// got the acknowledgements: the path of a queue pair that only answers may be dead, and its host
// sees nothing else of that. Devices count such requests of all their queue pairs together
// (duplicate_request of rdma_rxe and mlx5), so this is a reason to probe, and no evidence.
//
// Looks at a NIC only while queue pairs with nothing to send use it.
// Thread safety: the agent's loop thread. Complexity: O(flows), and a reading of each NIC every
// kInterval.
class RepeatWatch {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(50);
  // How long a repeated request counts. A peer repeats after its timeout only, 67 ms and more.
  static constexpr Duration kMemory = std::chrono::milliseconds(500);
  static constexpr std::size_t kMostNics = 64;

  // Returns how many requests the NIC with this address has received again, modulo 2^32; 0 if that
  // is unknown.
  using ReadRepeats = std::function<std::uint32_t(const IpAddress& nic)>;
  // Without `read`, no request is ever repeated.
  explicit RepeatWatch(ReadRepeats read) : read_(std::move(read)) {}

  // Input: all elephants.
  void HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows);
  // Whether the flow may carry acknowledgements that its peer does not get.
  bool MayBeUnheard(const FlowSample& flow, TimePoint now) const;

 private:
  struct Nic {
    std::uint32_t repeats = 0;  // as last read
    TimePoint grew;             // when they grew last
    bool has_grown = false;
    bool is_in_use = false;
  };
  // Whether it is a queue pair with nothing to send.
  static bool IsQuiet(const FlowSample& flow);

  const ReadRepeats read_;
  TimePoint next_{};
  std::map<IpAddress, Nic> nics_;
};

}  // namespace espalier::agent
