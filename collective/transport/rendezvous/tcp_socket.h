#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <string>

#include "collective/transport/base/transport.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// Addresses and sockets as the kernel has them; all sockets are non-blocking.

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
};

// Errors: kInvalidArgument.
Result<SocketAddress> ParseAddress(const std::string& digits, std::uint16_t port);
// kUnavailable for all that follow; kAlreadyExists for a port that is taken.
Result<UniqueFd> Listen(const SocketAddress& address);
Result<std::uint16_t> LocalPort(int socket);
// `check` is asked now and then while nobody answers; its error ends the wait.
using WaitCheck = std::function<Result<void>()>;
// Where `from` names no port, several are tried, as each may take another path; where it does, what
// an earlier connection between the same ports has left is waited for.
Result<UniqueFd> Dial(const SocketAddress& from, const SocketAddress& to, Deadline deadline,
                      const WaitCheck& check = {});
// No connection when none waits.
UniqueFd Accept(int listener);
// Both ends have one address.
bool IsWithinHost(int socket);
// What was sent has been sent again, and is not acknowledged yet: the path is dead or nearly so.
bool IsStuck(int socket);
// Sends or receives exactly that many bytes.
Result<void> SendWhole(int socket, const void* data, std::size_t bytes, Deadline deadline);
Result<void> ReceiveWhole(int socket, void* data, std::size_t bytes, Deadline deadline);
// Waits for poll's events; false past the deadline.
bool AwaitSocket(int socket, short events, Deadline deadline);
// Waits with checks in between. Errors: kUnavailable past the deadline, what the check says.
Result<void> AwaitSocket(int socket, short events, Deadline deadline, const WaitCheck& check);
// What is left, in poll's milliseconds, rounded up, 0 at least.
int MillisecondsUntil(Deadline deadline);

}  // namespace espalier::transport
