#include "agent/probe/sockets/raw_train_socket.h"

#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

namespace espalier::agent {
namespace {

constexpr int kMessagesPerTurn = 4'096;       // of each listener
constexpr int kReceiveBufferBytes = 4 << 20;  // trains come in bursts, and agents may be late
constexpr std::size_t kMaxPacketBytes = 256;  // longer ones are no packets of trains
constexpr std::size_t kControlBytes = 256;

std::int64_t Nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool Enable(int fd, int level, int option) {
  const int on = 1;
  return setsockopt(fd, level, option, &on, sizeof(on)) == 0;
}

// Lets pass segments to this port with RST and the magic of a train.
bool AttachFilter(int fd, int family, std::uint16_t port) {
  // Raw sockets see the IP header over IPv4 only; X becomes its length.
  std::array<sock_filter, 9> v4 = {{
      BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
      BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 5),
      BPF_STMT(BPF_LD | BPF_B | BPF_IND, 13),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x04, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_IND, 20),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kTrainMagic, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0xFFFF),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  if (family == AF_INET6) v4[0] = BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 0);
  const sock_fprog program{static_cast<unsigned short>(v4.size()), v4.data()};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

bool BindPort(int fd, int family, std::uint16_t port) {
  if (family == AF_INET) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    return bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0;
  }
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  return Enable(fd, IPPROTO_IPV6, IPV6_V6ONLY) &&
         bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0;
}

bool Configure(int fd, int family, std::uint8_t protocol, std::uint16_t port) {
  // Beyond the system's limit if permitted.
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBufferBytes,
                 sizeof(kReceiveBufferBytes)) != 0) {
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes, sizeof(kReceiveBufferBytes));
  }
  const bool has_details =
      Enable(fd, SOL_SOCKET, SO_TIMESTAMPNS) &&
      (family == AF_INET ? Enable(fd, IPPROTO_IP, IP_RECVTOS) && Enable(fd, IPPROTO_IP, IP_PKTINFO)
                         : Enable(fd, IPPROTO_IPV6, IPV6_RECVTCLASS) &&
                               Enable(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO));
  if (!has_details) return false;
  return protocol == IPPROTO_UDP ? BindPort(fd, family, port) : AttachFilter(fd, family, port);
}

// A packet and what the kernel says of it.
struct Datagram {
  std::array<std::uint8_t, kMaxPacketBytes> buffer;
  std::size_t size = 0;
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;  // of UDP
  std::uint8_t traffic_class = 0;
  std::int64_t arrived_ns = 0;

  std::span<const std::uint8_t> bytes() const { return std::span(buffer).first(size); }
};

IpAddress FromV6(const in6_addr& address) {
  IpAddress::Bytes bytes;
  std::memcpy(bytes.data(), &address, bytes.size());
  return IpAddress(bytes);
}

template <typename Value>
Value ReadControl(const cmsghdr* message) {
  Value value{};
  std::memcpy(&value, CMSG_DATA(message), sizeof(value));
  return value;
}

void ReadDetails(msghdr& header, Datagram& to) {
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    const int level = at->cmsg_level;
    if (level == SOL_SOCKET && at->cmsg_type == SCM_TIMESTAMPNS) {
      to.arrived_ns = Nanoseconds(ReadControl<timespec>(at));
    } else if (level == IPPROTO_IP && at->cmsg_type == IP_TOS) {
      to.traffic_class = ReadControl<std::uint8_t>(at);
    } else if (level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO) {
      to.destination = IpAddress::FromV4(ntohl(ReadControl<in_pktinfo>(at).ipi_addr.s_addr));
    } else if (level == IPPROTO_IPV6 && at->cmsg_type == IPV6_TCLASS) {
      to.traffic_class = static_cast<std::uint8_t>(ReadControl<int>(at));
    } else if (level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
      to.destination = FromV6(ReadControl<in6_pktinfo>(at).ipi6_addr);
    }
  }
}

// Returns false if there is none.
bool ReceiveDatagram(int fd, Datagram& to) {
  sockaddr_storage from{};
  iovec part{to.buffer.data(), to.buffer.size()};
  alignas(cmsghdr) std::array<char, kControlBytes> control;
  msghdr header{};
  header.msg_name = &from;
  header.msg_namelen = sizeof(from);
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = recvmsg(fd, &header, 0);
  if (size < 0) return false;
  to.size = static_cast<std::size_t>(size);
  to.traffic_class = 0;
  to.arrived_ns = 0;
  if (from.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &from, sizeof(v4));
    to.source = IpAddress::FromV4(ntohl(v4.sin_addr.s_addr));
    to.source_port = ntohs(v4.sin_port);
  } else {
    sockaddr_in6 v6;
    std::memcpy(&v6, &from, sizeof(v6));
    to.source = FromV6(v6.sin6_addr);
    to.source_port = ntohs(v6.sin6_port);
  }
  ReadDetails(header, to);
  return true;
}

std::optional<TrainPayload> ParseTcp(Datagram& datagram, int family, std::uint16_t port) {
  const std::optional<TrainSegment> segment =
      family == AF_INET
          ? ParseTrainSegmentV4(datagram.bytes())
          : ParseTrainSegmentV6(datagram.source, datagram.destination, datagram.bytes());
  // Segments that came before the filter may have another port.
  if (!segment || segment->destination_port != port) return std::nullopt;
  datagram.source_port = segment->source_port;
  return segment->payload;
}

}  // namespace

Result<std::unique_ptr<RawTrainSocket>> RawTrainSocket::Open() {
  std::unique_ptr<RawTrainSocket> made(new RawTrainSocket);
  made->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!made->epoll_) return tl::unexpected<Error>(SocketError("epoll_create1"));
  const UniqueFd attempt(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!attempt) return tl::unexpected<Error>(SocketError("raw socket (CAP_NET_RAW)"));
  return made;
}

Result<void> RawTrainSocket::Send(const TrainPacket& packet) {
  if (packet.source.IsNone() || packet.source.IsV4() != packet.destination.IsV4() ||
      packet.ttl == 0 || (packet.protocol != IPPROTO_UDP && packet.protocol != IPPROTO_TCP)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("invalid packet of a train: {} to {}, TTL {}, protocol {} (both "
                            "addresses must be of one family, the TTL at least 1, the protocol "
                            "UDP or TCP)",
                            packet.source.ToString(), packet.destination.ToString(), packet.ttl,
                            packet.protocol));
  }
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);  // the clock by which the kernel stamps arrivals
  return senders_.Send(packet.source, packet.destination,
                       BuildTrainPacket(packet, Nanoseconds(now)));
}

Result<void> RawTrainSocket::Listen(std::uint16_t port) {
  if (port == port_) return {};
  dropped_before_ = Dropped();
  listeners_.clear();
  port_ = 0;
  if (port == 0) return {};
  for (const int family : {AF_INET, AF_INET6}) {
    for (const int protocol : {IPPROTO_UDP, IPPROTO_TCP}) {
      Result<void> opened = OpenListener(family, static_cast<std::uint8_t>(protocol), port);
      if (opened) continue;
      if (family == AF_INET6 && opened.error().code == ErrorCode::kUnsupported) continue;
      listeners_.clear();
      return Propagate(opened);
    }
  }
  port_ = port;
  return {};
}

Result<void> RawTrainSocket::OpenListener(int family, std::uint8_t protocol, std::uint16_t port) {
  const int type = protocol == IPPROTO_UDP ? SOCK_DGRAM : SOCK_RAW;
  UniqueFd fd(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!fd || !Configure(fd.get(), family, protocol, port) ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
    return tl::unexpected<Error>(SocketError(fmt::format(
        "{} socket for trains to port {}", protocol == IPPROTO_UDP ? "UDP" : "TCP", port)));
  }
  listeners_.push_back({std::move(fd), family, protocol});
  return {};
}

void RawTrainSocket::OnArrival(std::function<void(const TrainArrival&)> callback) {
  on_arrival_ = std::move(callback);
}

void RawTrainSocket::HandleReady() {
  for (const Listener& listener : listeners_) Receive(listener);
}

void RawTrainSocket::Receive(const Listener& listener) {
  Datagram datagram;
  for (int i = 0; i < kMessagesPerTurn && ReceiveDatagram(listener.fd.get(), datagram); ++i) {
    const std::optional<TrainPayload> payload = listener.protocol == IPPROTO_UDP
                                                    ? ParseTrainPayload(datagram.bytes())
                                                    : ParseTcp(datagram, listener.family, port_);
    if (!payload || datagram.arrived_ns == 0 || !on_arrival_) continue;
    on_arrival_({.payload = *payload,
                 .arrived_ns = datagram.arrived_ns,
                 .is_marked = (datagram.traffic_class & kEcnMask) == kEcnExperienced,
                 .source = datagram.source,
                 .destination = datagram.destination,
                 .source_port = datagram.source_port,
                 .protocol = listener.protocol});
  }
}

std::uint64_t RawTrainSocket::Dropped() {
  std::uint64_t dropped = dropped_before_;
  for (const Listener& listener : listeners_) {
    // The count of SO_RXQ_OVFL, but known without a packet that arrives later.
    std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
    socklen_t size = sizeof(info);
    if (getsockopt(listener.fd.get(), SOL_SOCKET, SO_MEMINFO, info.data(), &size) == 0) {
      dropped += info[SK_MEMINFO_DROPS];
    }
  }
  return dropped;
}

}  // namespace espalier::agent
