#include "agent/probe/sockets/raw_probe_socket.h"

#include <fmt/format.h>
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "agent/probe/sockets/icmp_parser.h"
#include "agent/probe/sockets/probe_packet.h"
#include "common/base/check.h"

namespace espalier::agent {
namespace {

constexpr int kMessagesPerTurn = 1024;
constexpr int kReceiveBufferBytes = 4 << 20;  // answers come in bursts
constexpr std::uint32_t kQpnMask = 0xFFFFFF;

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

Result<std::unique_ptr<RawProbeSocket>> RawProbeSocket::Open(IsOwn is_own,
                                                             InterfaceOf interface_of) {
  std::unique_ptr<RawProbeSocket> made(
      new RawProbeSocket(std::move(is_own), std::move(interface_of)));
  made->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!made->epoll_) return tl::unexpected<Error>(SocketError("epoll_create1"));
  Result<void> v4 = made->OpenListener(AF_INET);
  if (!v4) return Propagate(v4);
  Result<void> v6 = made->OpenListener(AF_INET6);
  if (!v6 && v6.error().code != ErrorCode::kUnsupported) return Propagate(v6);
  return made;
}

Result<void> RawProbeSocket::OpenListener(int family) {
  const int protocol = family == AF_INET ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
  UniqueFd listener(socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!listener) return tl::unexpected<Error>(SocketError("raw ICMP socket (CAP_NET_RAW)"));
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
    return tl::unexpected<Error>(SocketError("raw ICMP socket"));
  }
  (family == AF_INET ? listener_v4_ : listener_v6_) = std::move(listener);
  return {};
}

void RawProbeSocket::OnReply(std::function<void(const ProbeReply&)> callback) {
  on_reply_ = std::move(callback);
}

Result<ProbeMark> RawProbeSocket::Send(const Probe& probe) {
  if (probe.ttl == 0 || probe.destination_qpn > kQpnMask || probe.source.IsNone() ||
      probe.destination.IsNone() || probe.source.IsV4() != probe.destination.IsV4()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("invalid probe: {} to {}, TTL {}, queue pair {} (both addresses must be of one "
                    "family, the TTL at least 1, the queue pair below 2^24)",
                    probe.source.ToString(), probe.destination.ToString(), probe.ttl,
                    probe.destination_qpn));
  }
  if (!is_own_(probe.source)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is no address of a NIC of the fabric", probe.source.ToString()));
  }
  const Result<unsigned> interface = interface_of_ ? interface_of_(probe) : 0U;
  if (!interface) return tl::unexpected<Error>(interface.error());
  std::uint32_t nonce = 0;
  while (nonce == 0) nonce = DrawWord();
  // Never zero: the kernel would replace it, and the ICRC covers it.
  std::uint16_t identification = 0;
  while (identification == 0) identification = static_cast<std::uint16_t>(DrawWord());
  const std::vector<std::uint8_t> packet = BuildProbePacket(probe, identification, nonce);
  if (auto sent = senders_.Send(probe.source, probe.destination, packet, *interface); !sent) {
    return Propagate(sent);
  }
  return MarkOf(packet);
}

std::uint32_t RawProbeSocket::DrawWord() {
  if (random_left_ == 0) {
    // getrandom returns up to 256 bytes all at once, or is interrupted while the system starts.
    static_assert(sizeof(random_) <= 256);
    ssize_t drawn = 0;
    do drawn = getrandom(random_.data(), sizeof(random_), 0);
    while (drawn < 0 && errno == EINTR);
    ESPALIER_CHECK(drawn == sizeof(random_), "drawn={} error={}", drawn, errno);
    random_left_ = random_.size();
  }
  return random_[--random_left_];
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
