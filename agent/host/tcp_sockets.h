#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent/flows/transport_state.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {

// Reads the kernel's TCP sockets of this network namespace by their addresses and ports
// (sock_diag(7)), which needs no privilege. Sockets of other network namespaces, such as those of
// containers with one of their own, are unknown.
// Thread safety: none. Complexity: some 2 us for each connection; never waits, as the kernel has
// answered when a request has been sent.
class TcpSockets {
 public:
  // Errors: kUnsupported if the kernel has no sock_diag.
  static Result<TcpSockets> Open();

  // Returns the socket of each connection; none for those that are unknown, are not established, or
  // are held by no process any more.
  std::vector<std::optional<TcpSocket>> Read(std::span<const TcpConnection> connections);

 private:
  explicit TcpSockets(UniqueFd socket);

  // A part of the requests whose answers fit the socket's buffer.
  void ReadSome(std::span<const TcpConnection> connections,
                std::span<std::optional<TcpSocket>> sockets);

  UniqueFd socket_;
  std::vector<std::byte> buffer_;
  std::uint32_t sequence_ = 0;  // of the next request
};

// Reads one answer of the kernel, given without its netlink header; safe for any bytes. None if it
// is no established connection that a process holds.
std::optional<TcpSocket> ReadTcpSocket(std::span<const std::byte> answer);

}  // namespace espalier::agent
