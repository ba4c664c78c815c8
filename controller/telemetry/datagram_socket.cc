#include "controller/telemetry/datagram_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/net/socket_address.h"

namespace espalier::telemetry {
namespace {

IpAddress AddressOf(const sockaddr_storage& from) {
  if (from.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &from, sizeof v4);
    return IpAddress::FromV4(ntohl(v4.sin_addr.s_addr));
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &from, sizeof v6);
  IpAddress::Bytes bytes{};
  std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
  return IpAddress(bytes);
}

tl::unexpected<Error> SystemError(const std::string& address) {
  const ErrorCode code = errno == EACCES ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable;
  return Fail(code, fmt::format("{}: {}", address, std::strerror(errno)));
}

}  // namespace

struct DatagramSocket::Buffers {
  std::array<mmsghdr, kBatch> messages{};
  std::array<iovec, kBatch> vectors{};
  std::array<sockaddr_storage, kBatch> sources{};
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kBatch * kMostBytes);
};

DatagramSocket::DatagramSocket(UniqueFd fd, std::string address, std::size_t buffer_bytes)
    : fd_(std::move(fd)),
      address_(std::move(address)),
      buffer_bytes_(buffer_bytes),
      buffers_(std::make_shared<Buffers>()) {}

Result<DatagramSocket> DatagramSocket::Open(const std::string& address, std::size_t buffer_bytes) {
  Result<io::SocketAddress> parsed = io::ParseSocketAddress(address);
  if (!parsed) return Propagate(parsed);
  if (parsed->IsUnix()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: sFlow comes over UDP (give HOST:PORT)", address));
  }
  UniqueFd fd(socket(parsed->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return SystemError(address);
  if (bind(fd.get(), parsed->get(), parsed->size) != 0) return SystemError(address);
  // The kernel holds less, but works, if it does not grant this.
  const int wanted = static_cast<int>(std::min<std::size_t>(buffer_bytes, 1U << 30U));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
  int granted = 0;
  socklen_t size = sizeof granted;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &granted, &size) != 0)
    return SystemError(address);
  io::SocketAddress bound;
  bound.size = sizeof bound.storage;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.size) != 0) {
    return SystemError(address);
  }
  return DatagramSocket(std::move(fd), io::FormatSocketAddress(bound),
                        static_cast<std::size_t>(granted) / 2);  // it reports twice the size
}

void DatagramSocket::Read(std::size_t batches, const Handle& handle) {
  Buffers& to = *buffers_;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      to.vectors[i] = {to.bytes.data() + i * kMostBytes, kMostBytes};
      to.messages[i].msg_hdr = {};
      to.messages[i].msg_hdr.msg_name = &to.sources[i];
      to.messages[i].msg_hdr.msg_namelen = sizeof to.sources[i];
      to.messages[i].msg_hdr.msg_iov = &to.vectors[i];
      to.messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int got = recvmmsg(fd_.get(), to.messages.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (got <= 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
      handle(AddressOf(to.sources[i]), {to.bytes.data() + i * kMostBytes, to.messages[i].msg_len});
    }
    if (static_cast<std::size_t>(got) < kBatch) return;
  }
}

}  // namespace espalier::telemetry
