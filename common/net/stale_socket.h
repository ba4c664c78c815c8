#pragma once

#include "common/base/result.h"
#include "common/net/socket_address.h"

namespace espalier::io {

// Removes the unix socket that a process has left at the address. Errors: kUnavailable if the path
// is no socket, or if another process listens there; those of the system.
Result<void> RemoveStaleSocket(const SocketAddress& address);

// The path of a unix socket's address.
const char* UnixPath(const SocketAddress& address);

// The error of a system call on this address, with its errno.
tl::unexpected<Error> SocketError(const SocketAddress& address, int error);

}  // namespace espalier::io
