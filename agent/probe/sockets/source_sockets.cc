#include "agent/probe/sockets/source_sockets.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
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

// Ancillary data by which the kernel looks for routes over one interface only.
class InterfaceControl {
 public:
  InterfaceControl(unsigned interface, const IpAddress& source) {
    info_.ipi_ifindex = static_cast<int>(interface);
    if (source.IsV4()) info_.ipi_spec_dst.s_addr = htonl(source.V4());
  }

  void AddTo(msghdr& message) {
    message.msg_control = buffer_.data();
    message.msg_controllen = buffer_.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = IPPROTO_IP;
    header->cmsg_type = IP_PKTINFO;
    header->cmsg_len = CMSG_LEN(sizeof(info_));
    std::memcpy(CMSG_DATA(header), &info_, sizeof(info_));
  }

 private:
  in_pktinfo info_{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(in_pktinfo))> buffer_{};
};

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
                                 std::span<const std::uint8_t> packet, unsigned interface) {
  const Result<int> sender = SenderFor(source);
  if (!sender) return tl::unexpected<Error>(sender.error());
  SocketAddress to = ToSocketAddress(destination);
  iovec bytes{const_cast<std::uint8_t*>(packet.data()), packet.size()};
  msghdr message{};
  message.msg_name = &to.storage;
  message.msg_namelen = to.size;
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  InterfaceControl control(interface, source);
  if (interface != 0 && source.IsV4()) control.AddTo(message);
  if (sendmsg(*sender, &message, MSG_NOSIGNAL) < 0) {
    return tl::unexpected<Error>(SocketError(destination.ToString()));
  }
  return {};
}

}  // namespace espalier::agent
