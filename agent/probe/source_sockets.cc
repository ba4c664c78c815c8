#include "agent/probe/source_sockets.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace espalier::agent {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress ToSocketAddress(const IpAddress& address) {
  SocketAddress made;
  if (address.IsV4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(address.V4());
    std::memcpy(&made.storage, &v4, sizeof(v4));
    made.size = sizeof(v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    std::memcpy(&v6.sin6_addr, address.bytes().data(), sizeof(v6.sin6_addr));
    std::memcpy(&made.storage, &v6, sizeof(v6));
    made.size = sizeof(v6);
  }
  return made;
}

ErrorCode CodeOf(int error) {
  switch (error) {
    case EAGAIN:
    case ENOBUFS:
      return ErrorCode::kUnavailable;
    case EPERM:
    case EACCES:
      return ErrorCode::kPermissionDenied;
    case EADDRNOTAVAIL:
    case EINVAL:
      return ErrorCode::kInvalidArgument;
    case EADDRINUSE:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
      return ErrorCode::kFailedPrecondition;
    case EAFNOSUPPORT:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

Error SocketError(std::string_view what) {
  const int error = errno;
  return {CodeOf(error), fmt::format("{}: {}", what, std::strerror(error))};
}

Result<int> SourceSockets::SenderFor(const IpAddress& source) {
  const auto known = by_source_.find(source);
  if (known != by_source_.end()) {
    senders_.splice(senders_.begin(), senders_, known->second);
    return known->second->fd.get();
  }
  UniqueFd fd(socket(source.IsV4() ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
                     IPPROTO_RAW));
  if (!fd) return tl::unexpected<Error>(SocketError("raw socket (CAP_NET_RAW)"));
  const SocketAddress address = ToSocketAddress(source);
  if (bind(fd.get(), address.generic(), address.size) != 0) {
    return tl::unexpected<Error>(SocketError(source.ToString()));
  }
  if (senders_.size() >= max_sources_) {
    by_source_.erase(senders_.back().source);
    senders_.pop_back();
  }
  senders_.push_front({source, std::move(fd)});
  by_source_[source] = senders_.begin();
  return senders_.front().fd.get();
}

Result<void> SourceSockets::Send(const IpAddress& source, const IpAddress& destination,
                                 std::span<const std::uint8_t> packet) {
  const Result<int> sender = SenderFor(source);
  if (!sender) return tl::unexpected<Error>(sender.error());
  const SocketAddress to = ToSocketAddress(destination);
  if (sendto(*sender, packet.data(), packet.size(), MSG_NOSIGNAL, to.generic(), to.size) < 0) {
    return tl::unexpected<Error>(SocketError(destination.ToString()));
  }
  return {};
}

}  // namespace espalier::agent
