#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collective/transport/base/send_observer.h"
#include "collective/transport/base/transport.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// Functions for TCP sockets and their addresses. All sockets are non-blocking.

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
};

// Errors: kInvalidArgument.
Result<SocketAddress> ParseAddress(const std::string& digits, std::uint16_t port);
// Errors of all functions below: kUnavailable; kAlreadyExists for a port that is in use.
Result<UniqueFd> Listen(const SocketAddress& address);
// Listens on that port of the address (0: any port). Errors: also kInvalidArgument.
Result<std::shared_ptr<const UniqueFd>> ListenOn(const std::string& address, std::uint16_t port);
Result<std::uint16_t> LocalPort(int socket);
// The addresses and ports of a connected socket.
Result<ConnectionEnds> EndsOf(int socket);
// This host's own address on the route to another one. Sends nothing.
Result<IpAddress> AddressTowards(const SocketAddress& to);
// Called periodically during a wait; its error ends the wait.
using WaitCheck = std::function<Result<void>()>;
// Connects. If `from` names no port, several ports are tried, as each may take another path. If it
// names one, remains of an earlier connection between the same ports are waited out.
Result<UniqueFd> Dial(const SocketAddress& from, const SocketAddress& to, Deadline deadline,
                      const WaitCheck& check = {});
// The next waiting connection; an empty descriptor if none waits.
UniqueFd Accept(int listener);
// Whether both ends have the same address.
bool IsWithinHost(int socket);
// Whether retransmitted data is still unacknowledged, so that the path is probably dead.
bool IsStuck(int socket);
// Sends or receives exactly that many bytes.
Result<void> SendWhole(int socket, const void* data, std::size_t bytes, Deadline deadline);
Result<void> ReceiveWhole(int socket, void* data, std::size_t bytes, Deadline deadline);
// Waits for events of poll(2); returns false past the deadline.
bool AwaitSocket(int socket, short events, Deadline deadline);
// As above, with periodic checks. Errors: kUnavailable past the deadline; those of the check.
Result<void> AwaitSocket(int socket, short events, Deadline deadline, const WaitCheck& check);
// The time left in milliseconds for poll(2), rounded up; at least 0.
int MillisecondsUntil(Deadline deadline);

}  // namespace espalier::transport
