#include "collective/transport/rendezvous/tcp_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kBacklog = 1024;
// How long an attempt to connect may take before another port is tried.
constexpr milliseconds kFirstPatience{500};
constexpr milliseconds kMaxPatience{4'000};

tl::unexpected<Error> FailWithReason(const std::string& what) {
  return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string DescribeEnd(const SocketAddress& address);

std::uint16_t PortOf(const SocketAddress& address) {
  // The port has the same offset in both address families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

// Reports a port in use as kAlreadyExists; `in_use`: the errno by which the failed call says so.
tl::unexpected<Error> FailToTake(const std::string& what, int in_use) {
  if (errno != in_use) return FailWithReason(what);
  return Fail(ErrorCode::kAlreadyExists,
              fmt::format("{}: {} (another connection uses the port)", what, std::strerror(errno)));
}

const sockaddr* Raw(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

// Within a host a large send buffer does not help, and data that waits in it leaves the caches.
void Tune(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (!IsWithinHost(socket)) return;
  const int waiting = 256 << 10;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &waiting, sizeof(waiting));
}

}  // namespace

bool IsWithinHost(int socket) {
  SocketAddress own;
  SocketAddress peer;
  own.length = peer.length = sizeof(own.storage);
  const bool known =
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.length) == 0 &&
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) == 0;
  if (!known || own.storage.ss_family != peer.storage.ss_family) return false;
  if (own.storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(&peer.storage)->sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(&own.storage)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(&peer.storage)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

namespace {

IpAddress AddressOf(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    return IpAddress::FromV4(
        ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr));
  }
  IpAddress::Bytes bytes;
  std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr,
              bytes.size());
  return IpAddress(bytes);
}

// "10.0.0.1:80" or "[fd00::1]:80".
std::string DescribeEnd(const SocketAddress& address) {
  const std::string digits = AddressOf(address).ToString();
  const bool is_v4 = address.storage.ss_family == AF_INET;
  return is_v4 ? fmt::format("{}:{}", digits, PortOf(address))
               : fmt::format("[{}]:{}", digits, PortOf(address));
}

}  // namespace

Result<ConnectionEnds> EndsOf(int socket) {
  SocketAddress own;
  SocketAddress peer;
  own.length = peer.length = sizeof(own.storage);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0) {
    return FailWithReason("cannot read the ends of a connection");
  }
  return ConnectionEnds{.source = AddressOf(own),
                        .destination = AddressOf(peer),
                        .source_port = PortOf(own),
                        .destination_port = PortOf(peer)};
}

int MillisecondsUntil(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

bool AwaitSocket(int socket, short events, Deadline deadline) {
  pollfd entry = {.fd = socket, .events = events, .revents = 0};
  while (true) {
    const int ready = ::poll(&entry, 1, MillisecondsUntil(deadline));
    if (ready > 0) return true;
    if (steady_clock::now() >= deadline) return false;
  }
}

Result<void> AwaitSocket(int socket, short events, Deadline deadline, const WaitCheck& check) {
  constexpr milliseconds kNap{50};
  while (true) {
    const Deadline nap = check ? std::min(deadline, steady_clock::now() + kNap) : deadline;
    if (AwaitSocket(socket, events, nap)) return {};
    if (nap == deadline) return Fail(ErrorCode::kUnavailable, "no answer in time");
    auto checked = check();
    if (!checked) return checked;
  }
}

Result<SocketAddress> ParseAddress(const std::string& digits, std::uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, digits.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof(*v4);
  } else if (::inet_pton(AF_INET6, digits.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.length = sizeof(*v6);
  } else {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" is not an IPv4 or IPv6 address", digits));
  }
  return address;
}

Result<UniqueFd> Listen(const SocketAddress& address) {
  UniqueFd socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Allows a port of which connections from an earlier listener remain.
  const int on = 1;
  if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (!socket || ::bind(socket.get(), Raw(address), address.length) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return FailToTake(fmt::format("cannot listen at {}", DescribeEnd(address)), EADDRINUSE);
  }
  return socket;
}

Result<std::shared_ptr<const UniqueFd>> ListenOn(const std::string& address, std::uint16_t port) {
  auto place = ParseAddress(address, port);
  if (!place) return Propagate(place);
  auto socket = Listen(*place);
  if (!socket) return Propagate(socket);
  return std::make_shared<const UniqueFd>(std::move(*socket));
}

Result<std::uint16_t> LocalPort(int socket) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return FailWithReason("cannot read the local port");
  }
  return PortOf(address);
}

namespace {

constexpr milliseconds kPause{20};  // between two attempts

// Connects; waits while the kernel still holds an earlier connection from a planned port.
Result<void> Connect(int socket, const SocketAddress& from, const SocketAddress& to,
                     Deadline deadline, const WaitCheck& check) {
  while (::connect(socket, Raw(to), to.length) != 0) {
    if (errno == EINPROGRESS) return AwaitSocket(socket, POLLOUT, deadline, check);
    const bool may_pass = errno == EADDRNOTAVAIL && PortOf(from) != 0;
    if (!may_pass || steady_clock::now() >= deadline) {
      return FailToTake(
          fmt::format("cannot connect from {} to {}", DescribeEnd(from), DescribeEnd(to)),
          EADDRNOTAVAIL);
    }
    auto well = check ? check() : Result<void>();
    if (!well) return well;
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

struct Attempt {
  Result<UniqueFd> socket;
  bool is_out_of_reach = false;  // an ICMP error says so
};

Attempt DialOnce(const SocketAddress& from, const SocketAddress& to, Deadline deadline,
                 const WaitCheck& check) {
  UniqueFd socket(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {FailWithReason("cannot create a socket")};
  // A chosen port may have served a connection of an earlier group.
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Without a chosen port, lets the kernel choose it at connect, when it knows the other end.
  ::setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  if (::bind(socket.get(), Raw(from), from.length) != 0) {
    return {FailToTake(fmt::format("cannot send from {}", DescribeEnd(from)), EADDRINUSE)};
  }
  auto connected = Connect(socket.get(), from, to, deadline, check);
  if (!connected) return {Propagate(connected)};
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    errno = error;
    return {FailWithReason("cannot connect to " + DescribeEnd(to)),
            error == EHOSTUNREACH || error == ENETUNREACH};
  }
  Tune(socket.get());
  return {std::move(socket)};
}

}  // namespace

Result<IpAddress> AddressTowards(const SocketAddress& to) {
  const UniqueFd socket(::socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress own;
  own.length = sizeof(own.storage);
  if (!socket || ::connect(socket.get(), Raw(to), to.length) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0) {
    return FailWithReason("no route to " + DescribeEnd(to));
  }
  return AddressOf(own);
}

Result<UniqueFd> Dial(const SocketAddress& from, const SocketAddress& to, Deadline deadline,
                      const WaitCheck& check) {
  if (PortOf(from) != 0) return DialOnce(from, to, deadline, check).socket;
  // Another port takes another path through the fabric, if the previous one leads nowhere.
  milliseconds patience = kFirstPatience;
  while (true) {
    const Deadline end = std::min(deadline, steady_clock::now() + patience);
    Attempt attempt = DialOnce(from, to, end, check);
    const auto now = steady_clock::now();
    const bool may_pass = now >= end || attempt.is_out_of_reach;
    if (attempt.socket || !may_pass || now >= deadline) return std::move(attempt.socket);
    auto well = check ? check() : Result<void>();
    if (!well) return Propagate(well);
    std::this_thread::sleep_for(kPause);
    patience = std::min(2 * patience, kMaxPatience);
  }
}

UniqueFd Accept(int listener) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) Tune(socket.get());
  return socket;
}

bool IsStuck(int socket) {
  tcp_info info = {};
  socklen_t length = sizeof(info);
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
         info.tcpi_retransmits > 0;
}

Result<void> SendWhole(int socket, const void* data, std::size_t bytes, Deadline deadline) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      bytes -= static_cast<std::size_t>(sent);
    } else if (errno != EAGAIN && errno != EINTR) {
      return FailWithReason("the connection broke");
    } else if (!AwaitSocket(socket, POLLOUT, deadline)) {
      return Fail(ErrorCode::kUnavailable, "timed out");
    }
  }
  return {};
}

Result<void> ReceiveWhole(int socket, void* data, std::size_t bytes, Deadline deadline) {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t received = ::recv(socket, at, bytes, 0);
    if (received > 0) {
      at += received;
      bytes -= static_cast<std::size_t>(received);
    } else if (received == 0) {
      return Fail(ErrorCode::kUnavailable, "the connection was closed");
    } else if (errno != EAGAIN && errno != EINTR) {
      return FailWithReason("the connection broke");
    } else if (!AwaitSocket(socket, POLLIN, deadline)) {
      return Fail(ErrorCode::kUnavailable, "timed out");
    }
  }
  return {};
}

}  // namespace espalier::transport
