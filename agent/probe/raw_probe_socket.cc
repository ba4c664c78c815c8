#include "agent/probe/raw_probe_socket.h"

#include <fmt/format.h>
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "agent/probe/icmp_parser.h"
#include "agent/probe/probe_packet.h"

namespace espalier::agent {
namespace {

constexpr std::size_t kMaxSources = 256;
constexpr int kMessagesPerTurn = 1024;
constexpr int kReceiveBufferBytes = 4 << 20;  // answers come in bursts
constexpr std::uint32_t kQpnMask = 0xFFFFFF;

Error SystemError(std::string_view what) {
  const int error = errno;
  ErrorCode code = ErrorCode::kInternal;
  switch (error) {
    case EAGAIN:
    case ENOBUFS:
      code = ErrorCode::kUnavailable;
      break;
    case EPERM:
    case EACCES:
      code = ErrorCode::kPermissionDenied;
      break;
    case EADDRNOTAVAIL:
    case EINVAL:
      code = ErrorCode::kInvalidArgument;
      break;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
      code = ErrorCode::kFailedPrecondition;
      break;
    case EAFNOSUPPORT:
      code = ErrorCode::kUnsupported;
      break;
    default:
      break;
  }
  return {code, fmt::format("{}: {}", what, std::strerror(error))};
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
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

const sockaddr* Generic(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

bool OnlyIcmpErrors(int socket, int family) {
  if (family == AF_INET) {
    icmp_filter filter{};
    filter.data = ~(1U << ICMP_DEST_UNREACH | 1U << ICMP_TIME_EXCEEDED);
    return setsockopt(socket, SOL_RAW, ICMP_FILTER, &filter, sizeof(filter)) == 0;
  }
  icmp6_filter filter{};
  ICMP6_FILTER_SETBLOCKALL(&filter);
  ICMP6_FILTER_SETPASS(ICMP6_DST_UNREACH, &filter);
  ICMP6_FILTER_SETPASS(ICMP6_TIME_EXCEEDED, &filter);
  return setsockopt(socket, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof(filter)) == 0;
}

}  // namespace

Result<std::unique_ptr<RawProbeSocket>> RawProbeSocket::Open() {
  std::unique_ptr<RawProbeSocket> made(new RawProbeSocket);
  made->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!made->epoll_) return tl::unexpected<Error>(SystemError("epoll_create1"));
  Result<void> v4 = made->OpenListener(AF_INET);
  if (!v4) return Propagate(v4);
  Result<void> v6 = made->OpenListener(AF_INET6);
  if (!v6 && v6.error().code != ErrorCode::kUnsupported) return Propagate(v6);
  return made;
}

Result<void> RawProbeSocket::OpenListener(int family) {
  const int protocol = family == AF_INET ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
  UniqueFd listener(socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!listener) return tl::unexpected<Error>(SystemError("raw ICMP socket (CAP_NET_RAW)"));
  // Beyond the system's limit if permitted. A smaller buffer may lose answers, which is no error.
  if (setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBufferBytes,
                 sizeof(kReceiveBufferBytes)) != 0) {
    (void)setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes,
                     sizeof(kReceiveBufferBytes));
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = family;
  if (!OnlyIcmpErrors(listener.get(), family) ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0) {
    return tl::unexpected<Error>(SystemError("raw ICMP socket"));
  }
  (family == AF_INET ? listener_v4_ : listener_v6_) = std::move(listener);
  return {};
}

void RawProbeSocket::OnReply(std::function<void(const ProbeReply&)> callback) {
  on_reply_ = std::move(callback);
}

Result<int> RawProbeSocket::SenderFor(const IpAddress& source) {
  const auto known = senders_.find(source);
  if (known != senders_.end()) return known->second.get();
  if (senders_.size() >= kMaxSources) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the agent probes from at most {} source addresses", kMaxSources));
  }
  const int family = source.IsV4() ? AF_INET : AF_INET6;
  UniqueFd sender(socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW));
  if (!sender) return tl::unexpected<Error>(SystemError("raw socket (CAP_NET_RAW)"));
  const SocketAddress address = ToSocketAddress(source);
  if (bind(sender.get(), Generic(address), address.size) != 0) {
    return tl::unexpected<Error>(SystemError(source.ToString()));
  }
  const int fd = sender.get();
  senders_.emplace(source, std::move(sender));
  return fd;
}

Result<void> RawProbeSocket::Send(const Probe& probe) {
  if (probe.ttl == 0 || probe.destination_qpn > kQpnMask || probe.source.IsNone() ||
      probe.destination.IsNone() || probe.source.IsV4() != probe.destination.IsV4()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("invalid probe: {} to {}, TTL {}, queue pair {} (both addresses must be of one "
                    "family, the TTL at least 1, the queue pair below 2^24)",
                    probe.source.ToString(), probe.destination.ToString(), probe.ttl,
                    probe.destination_qpn));
  }
  const Result<int> sender = SenderFor(probe.source);
  if (!sender) return tl::unexpected<Error>(sender.error());
  // Never zero: the kernel would replace it, and the ICRC covers it.
  identification_ = identification_ == 0xFFFF ? std::uint16_t{1}
                                              : static_cast<std::uint16_t>(identification_ + 1);
  const std::vector<std::uint8_t> packet = BuildProbePacket(probe, identification_);
  const SocketAddress to = ToSocketAddress(probe.destination);
  if (sendto(*sender, packet.data(), packet.size(), MSG_NOSIGNAL, Generic(to), to.size) < 0) {
    return tl::unexpected<Error>(SystemError(probe.destination.ToString()));
  }
  return {};
}

void RawProbeSocket::HandleReady() {
  if (listener_v4_) Receive(listener_v4_.get(), true);
  if (listener_v6_) Receive(listener_v6_.get(), false);
}

void RawProbeSocket::Receive(int listener, bool is_v4) {
  std::array<std::uint8_t, 2048> buffer;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    sockaddr_in6 from{};
    socklen_t from_size = sizeof(from);
    const ssize_t size = recvfrom(listener, buffer.data(), buffer.size(), 0,
                                  reinterpret_cast<sockaddr*>(&from), &from_size);
    if (size < 0) return;
    const std::span<const std::uint8_t> bytes(buffer.data(), static_cast<std::size_t>(size));
    IpAddress::Bytes sender{};
    if (!is_v4) std::memcpy(sender.data(), &from.sin6_addr, sender.size());
    const std::optional<ProbeReply> reply =
        is_v4 ? ParseIcmpV4(bytes) : ParseIcmpV6(IpAddress(sender), bytes);
    if (reply && on_reply_) on_reply_(*reply);
  }
}

}  // namespace espalier::agent
