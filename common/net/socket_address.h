#pragma once

#include <sys/socket.h>

#include <string>

#include "common/base/result.h"

namespace espalier::io {

// Where a stream socket listens, as the system wants it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool IsUnix() const { return storage.ss_family == AF_UNIX; }
};

// Reads "127.0.0.1:9180", "[::1]:9180", "name:9180" (resolved, blocking) or "unix:/path".
// Errors: kInvalidArgument for another form or a port above 65535; kNotFound for an unknown name.
Result<SocketAddress> ParseSocketAddress(const std::string& text);

// The form that ParseSocketAddress reads, with numbers for names.
std::string FormatSocketAddress(const SocketAddress& address);

// Whether only processes of this host can reach what listens there: a unix socket, or a loopback
// address. False for what ParseSocketAddress does not read.
bool IsLocalAddress(const std::string& text);

// Metrics name jobs and have no guard before them: others than this host's users are to read them
// only where that is said to be fine. Errors: kInvalidArgument, with the remedy.
Result<void> CheckMetricsAddress(const std::string& text, bool insecure_http);

}  // namespace espalier::io
