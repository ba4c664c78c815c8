#include "deploy/lab/traffic/udp_receiver.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/os/os_error.h"
#include "deploy/lab/traffic/endpoint.h"
#include "deploy/lab/traffic/segment_format.h"

namespace espalier::traffic {
namespace {

// Large, as an overrun of the receiver would look like loss in the fabric.
constexpr int kReceiveBuffer = 16 << 20;
constexpr int kReadsPerWakeup = 256;
// Larger sequence numbers, from 1.4 TB on, do not belong to a flow of a workload.
constexpr std::uint64_t kMaxSequence = 1'000'000'000;

}  // namespace

Result<std::unique_ptr<UdpReceiver>> UdpReceiver::Listen(io::AsioEventLoop& loop,
                                                         const IpAddress& address,
                                                         const std::vector<std::uint32_t>& flows) {
  const Endpoint endpoint(address, kTrafficPort);
  UniqueFd socket(
      ::socket(endpoint.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!socket || ::bind(socket.get(), endpoint.data(), endpoint.size()) != 0) {
    return FailErrno("UDP on " + address.ToString() + " port 4791", errno);
  }
  // Without CAP_NET_ADMIN the system's limit applies.
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer,
                   sizeof kReceiveBuffer) != 0) {
    static_cast<void>(
        ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer));
  }
  std::unique_ptr<UdpReceiver> receiver(new UdpReceiver(loop, std::move(socket)));
  for (const std::uint32_t flow : flows) receiver->flows_[flow].received.index = flow;
  return receiver;
}

UdpReceiver::UdpReceiver(io::AsioEventLoop& loop, UniqueFd socket) : socket_(std::move(socket)) {
  watch_ = loop.WatchReadable(socket_.get(), [this] { Read(); });
}

void UdpReceiver::Read() {
  for (int i = 0; i < kReadsPerWakeup; ++i) {
    std::array<char, 2048> datagram{};
    const ssize_t n = ::recv(socket_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT);
    if (n < 0) return;
    DatagramHeader header;
    if (static_cast<std::size_t>(n) < sizeof header) continue;
    std::memcpy(&header, datagram.data(), sizeof header);
    const auto found = flows_.find(header.flow);
    if (header.magic != kMagic || found == flows_.end() || header.sequence > kMaxSequence) continue;
    Flow& flow = found->second;
    if (header.sequence >= flow.seen.size()) flow.seen.resize(header.sequence + 1);
    if (flow.seen[header.sequence]) {
      ++flow.received.duplicates;
      continue;
    }
    flow.seen[header.sequence] = true;
    ++flow.received.segments;
    flow.received.bytes += n;
  }
}

std::vector<ReceivedFlow> UdpReceiver::Report() const {
  std::vector<ReceivedFlow> report;
  for (const auto& [index, flow] : flows_) report.push_back(flow.received);
  return report;
}

}  // namespace espalier::traffic
