#include "agent/host/tcp_sockets.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/os/netlink.h"

namespace espalier::agent {
namespace {

using netlink::Bytes;
using netlink::ForEachAttribute;

// The answers to these take a quarter of the usual buffer of a socket.
constexpr std::size_t kRequestsAtOnce = 32;
constexpr std::size_t kReplyBytes = 16 << 10;

// States of a connection that was established and may have data in flight (net/tcp_states.h).
constexpr std::uint32_t kSendingStates =
    1U << 1U | 1U << 4U | 1U << 8U | 1U << 9U | 1U << 11U;  // ESTABLISHED to CLOSING

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

void WriteAddress(const IpAddress& address, bool is_v4, __be32 (&words)[4]) {
  const IpAddress::Bytes& bytes = address.bytes();
  if (is_v4) {
    std::memcpy(words, bytes.data() + 12, 4);
  } else {
    std::memcpy(words, bytes.data(), bytes.size());
  }
}

Request MakeRequest(const TcpConnection& connection, std::uint32_t sequence) {
  Request request{};
  request.header = {.nlmsg_len = sizeof(request),
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST,
                    .nlmsg_seq = sequence,
                    .nlmsg_pid = 0};
  const bool is_v4 = connection.source.IsV4();
  request.body.sdiag_family = is_v4 ? AF_INET : AF_INET6;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1U);
  request.body.idiag_states = kSendingStates;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = htons(connection.source_port);
  id.idiag_dport = htons(connection.destination_port);
  WriteAddress(connection.source, is_v4, id.idiag_src);
  WriteAddress(connection.destination, is_v4, id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

}  // namespace

Result<TcpSockets> TcpSockets::Open() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!socket) return Fail(ErrorCode::kUnsupported, "the kernel has no sock_diag");
  return TcpSockets(std::move(socket));
}

TcpSockets::TcpSockets(UniqueFd socket) : socket_(std::move(socket)), buffer_(kReplyBytes) {}

std::vector<std::optional<TcpSocket>> TcpSockets::Read(std::span<const TcpConnection> connections) {
  std::vector<std::optional<TcpSocket>> sockets(connections.size());
  for (std::size_t first = 0; first < connections.size(); first += kRequestsAtOnce) {
    const std::size_t count = std::min(kRequestsAtOnce, connections.size() - first);
    ReadSome(connections.subspan(first, count), std::span(sockets).subspan(first, count));
  }
  return sockets;
}

void TcpSockets::ReadSome(std::span<const TcpConnection> connections,
                          std::span<std::optional<TcpSocket>> sockets) {
  const std::uint32_t first = sequence_;
  std::vector<Request> requests;
  for (const TcpConnection& connection : connections) {
    requests.push_back(MakeRequest(connection, sequence_++));
  }
  const std::size_t bytes = requests.size() * sizeof(Request);
  if (::send(socket_.get(), requests.data(), bytes, 0) < 0) return;
  while (true) {
    sockaddr_nl sender{};
    socklen_t sender_size = sizeof(sender);
    const ssize_t size = ::recvfrom(socket_.get(), buffer_.data(), buffer_.size(), 0,
                                    reinterpret_cast<sockaddr*>(&sender), &sender_size);
    if (size < 0 && (errno == EINTR || errno == ENOBUFS)) continue;
    if (size < 0) return;
    if (sender.nl_pid != 0) continue;  // another process
    const Bytes answers(buffer_.data(), static_cast<std::size_t>(size));
    netlink::ForEachMessage(answers, [&](const nlmsghdr& header, Bytes payload) {
      const std::uint32_t index = header.nlmsg_seq - first;
      if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || index >= sockets.size()) return;
      sockets[index] = ReadTcpSocket(payload);
    });
  }
}

std::optional<TcpSocket> ReadTcpSocket(Bytes answer) {
  inet_diag_msg message{};
  if (answer.size() < sizeof(message)) return std::nullopt;
  std::memcpy(&message, answer.data(), sizeof(message));
  const bool is_sending =
      message.idiag_state < 32 && (kSendingStates >> message.idiag_state & 1U) != 0;
  if (!is_sending || message.idiag_inode == 0) return std::nullopt;
  std::optional<TcpSocket> socket;
  ForEachAttribute(answer.subspan(sizeof(message)), [&](int kind, Bytes value) {
    if (kind != INET_DIAG_INFO) return;
    tcp_info info{};
    if (value.size() < offsetof(tcp_info, tcpi_total_retrans) + sizeof(info.tcpi_total_retrans)) {
      return;
    }
    std::memcpy(&info, value.data(), std::min(value.size(), sizeof(info)));
    socket = TcpSocket{
        .user = message.idiag_uid,
        .cookie = std::uint64_t{message.id.idiag_cookie[1]} << 32U | message.id.idiag_cookie[0],
        .repeats = info.tcpi_total_retrans,
        .timeouts = info.tcpi_retransmits,
        .unacknowledged = info.tcpi_unacked,
        .rtt_us = info.tcpi_rtt};
  });
  return socket;
}

}  // namespace espalier::agent
