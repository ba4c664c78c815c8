#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string_view>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {

// Returns the error of the last system call (errno): kUnavailable if it may succeed later.
Error SocketError(std::string_view what);

// Sends whole IP packets by raw sockets (CAP_NET_RAW), one for each source address, bound to it so
// that the host routes by it. Beyond a limit the least recently used socket is closed.
// Thread safety: none. Complexity: O(log sources).
class SourceSockets {
 public:
  explicit SourceSockets(std::size_t max_sources = 256) : max_sources_(max_sources) {}

  // Sends a packet, from its IP header on, over this interface (IPv4 only; 0: as the host routes
  // the destination). Errors: kUnavailable when the send buffer is full (try again later),
  // kPermissionDenied, kInvalidArgument for a source that is not this host's, kFailedPrecondition
  // without a route, kUnsupported for a host without IPv6.
  Result<void> Send(const IpAddress& source, const IpAddress& destination,
                    std::span<const std::uint8_t> packet, unsigned interface = 0);
  std::size_t size() const { return senders_.size(); }

 private:
  struct Sender {
    IpAddress source;
    UniqueFd fd;
  };
  Result<int> SenderFor(const IpAddress& source);

  const std::size_t max_sources_;
  std::list<Sender> senders_;  // the most recently used first
  std::map<IpAddress, std::list<Sender>::iterator> by_source_;
};

}  // namespace espalier::agent
