#pragma once

#include <sys/socket.h>

#include <string>

#include "common/base/result.h"

namespace espalier::io {

// The address of a stream socket, in the form of the system's calls.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool IsUnix() const { return storage.ss_family == AF_UNIX; }
};

// Parses "127.0.0.1:9180", "[::1]:9180", "name:9180" (resolves the name, blocking) or "unix:/path".
// Errors: kInvalidArgument for another form or a port above 65535; kNotFound for an unknown name.
Result<SocketAddress> ParseSocketAddress(const std::string& text);

// Formats the address for ParseSocketAddress, with numbers instead of names.
std::string FormatSocketAddress(const SocketAddress& address);

// True if only processes of this host can reach the address: a unix socket or a loopback address.
// False for text that ParseSocketAddress refuses.
bool IsLocalAddress(const std::string& text);

// Checks that metrics, which name jobs and need no authentication, are served to this host only,
// unless insecure_http allows more. Errors: kInvalidArgument, with the remedy.
Result<void> CheckMetricsAddress(const std::string& text, bool insecure_http);

}  // namespace espalier::io
