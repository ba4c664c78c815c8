#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "agent/probe/probe_socket.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {

// By which interface the kernel sends the packets of a probe's flow, where a route has several next
// hops among which it chooses by a hash of the ports (fib_multipath_hash_policy). A raw socket is
// routed without ports, so that all its packets would leave by one of them.
//
// One look-up through rtnetlink tells whether the route to a destination has several next hops,
// which is remembered for a second; if it has, each source port is another look-up (some 10 us).
// IPv4 only. Thread safety: the agent's loop thread.
class PortRoutes {
 public:
  // Errors: kInternal, kResourceExhausted from the kernel.
  static Result<PortRoutes> Open();

  // The number of the interface; 0 if there is no choice, or if the kernel does not answer.
  // Error: kFailedPrecondition if there is a choice by policy 3. Then the kernel answers as for a
  // packet that it forwards, which it hashes otherwise than its own.
  Result<unsigned> InterfaceOf(const Probe& probe);

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    bool has_choice = false;
    bool is_told = true;  // by the kernel: it is not, with policy 3
    Clock::time_point until;
  };
  struct Answer {
    unsigned interface = 0;
    bool has_next_hops = false;
  };

  explicit PortRoutes(UniqueFd socket) : socket_(std::move(socket)) {}
  // What the table has for the destination, or the next hop for the packet.
  enum class Wanted : std::uint8_t { kEntry, kNextHop };
  Known ChoiceOf(const Probe& probe);
  Answer Ask(const Probe& probe, Wanted wanted);

  UniqueFd socket_;
  std::uint32_t sequence_ = 0;
  std::map<IpAddress, Known> known_;  // by destination
};

}  // namespace espalier::agent
