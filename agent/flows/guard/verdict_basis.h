#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "agent/flows/flow_meter.h"
#include "agent/flows/transport_state.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

// "claimed", "probed", "kernel" or "device".
std::string_view BasisName(wire::PathBasis basis);

// Finds out who but its program can confirm that a flow repeats in vain what it sends.
//   kKernel   the socket of its five-tuple, which belongs to the flow's user, has sent again after
//   a
//             timeout, and nothing has been acknowledged since
//   kDevice   it is a queue pair, and since its last progress its device has waited in vain for
//             acknowledgements, of this queue pair or of another one of that device
//   kClaimed  nobody
//
// A program can still bring about what the kernel sees: it can have its own socket drop what
// arrives, or send with a TTL that is too short. So the kernel proves that the flow exists and is
// stuck, and not that a link is at fault.
//
// Sockets are read when a verdict needs them, up to kMostReads a second, of which a user gets
// kMostReadsOfUser; beyond, nobody confirms. Devices of queue pairs that have something to send are
// read every kInterval.
// Thread safety: the agent's loop thread. Complexity: O(flows) every kInterval; a reading of one
// socket or one device for each verdict.
class VerdictBasis {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(250);
  static constexpr std::size_t kMostDevices = 64;
  static constexpr std::size_t kMostReads = 512;
  static constexpr std::size_t kMostReadsOfUser = 128;

  explicit VerdictBasis(TransportReaders readers) : readers_(std::move(readers)) {}

  // Input: all elephants.
  void HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows);
  // Of the statement that this port (0: unknown) of the flow has made no progress for so long.
  wire::PathBasis Find(TimePoint now, const FlowSample& flow, std::uint16_t port,
                       Duration without_progress);

 private:
  struct Device {
    std::uint32_t timeouts = 0;  // as last read
    TimePoint read_at;
    TimePoint grew_after;  // the reading before the last growth
    bool has_grown = false;
    bool is_in_use = false;

    void Update(TimePoint now, std::uint32_t count);
  };

  bool TakeRead(TimePoint now, std::uint64_t user);
  bool IsSocketStuck(TimePoint now, const FlowSample& flow, std::uint16_t port);
  bool HasDeviceWaited(TimePoint now, const FlowSample& flow, Duration without_progress);

  const TransportReaders readers_;
  TimePoint next_{};
  std::map<IpAddress, Device> devices_;
  TimePoint second_{};                             // in which the reads below were made
  std::size_t reads_ = 0;                          // of sockets
  std::map<std::uint64_t, std::size_t> reads_of_;  // by user
};

}  // namespace espalier::agent
