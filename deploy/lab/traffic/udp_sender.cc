#include "deploy/lab/traffic/udp_sender.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "deploy/lab/traffic/endpoint.h"
#include "deploy/lab/traffic/segment_format.h"

namespace espalier::traffic {
namespace {

constexpr std::chrono::milliseconds kBurstInterval{2};

}  // namespace

UdpSender::UdpSender(io::AsioEventLoop& loop, const Options& options, SteeredFlow steered,
                     std::function<void()> on_done)
    : loop_(loop), options_(options), steered_(std::move(steered)), on_done_(std::move(on_done)) {
  report_.index = options.flow;
}

void UdpSender::Start() {
  start_ = loop_.Now();
  report_.start_ns = start_.time_since_epoch().count();
  Burst();
}

void UdpSender::Burst() {
  steered_.Refresh();
  const TimePoint now = loop_.Now();
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double due = seconds * static_cast<double>(options_.rate.value) / 8;
  const std::int64_t end = std::min(options_.bytes, static_cast<std::int64_t>(due));
  const std::span<const std::uint16_t> chosen = steered_.ports();
  const std::uint16_t port = chosen.empty() ? options_.own_port : chosen.front();
  if (port != port_ || !socket_) {
    port_ = port;
    // A port that is in use is tried again at the next burst.
    if (!OpenSocket()) socket_.Close();
  }
  while (socket_ && report_.bytes < end && SendOne()) CountOne();
  report_.end_ns = now.time_since_epoch().count();
  steered_.Report(options_.bytes - report_.bytes, 0, report_.bytes, port_);
  if (report_.bytes < options_.bytes) {
    timer_ = loop_.After(kBurstInterval, [this] { Burst(); });
    return;
  }
  report_.done = true;
  on_done_();
}

bool UdpSender::OpenSocket() {
  const Endpoint from(options_.source, port_);
  socket_ =
      UniqueFd(::socket(from.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
  return socket_ && ::bind(socket_.get(), from.data(), from.size()) == 0;
}

bool UdpSender::SendOne() {
  std::array<char, kDatagramBytes> datagram{};
  const DatagramHeader header{.flow = options_.flow,
                              .sequence = static_cast<std::uint64_t>(report_.segments)};
  std::memcpy(datagram.data(), &header, sizeof header);
  const Endpoint to(options_.destination, kTrafficPort);
  if (::sendto(socket_.get(), datagram.data(), datagram.size(), 0, to.data(), to.size()) > 0) {
    return true;
  }
  // If the queue is full, the rest waits for the next burst; datagrams that the network refuses are
  // lost.
  return errno != EAGAIN && errno != ENOBUFS;
}

void UdpSender::CountOne() {
  report_.bytes += kDatagramBytes;
  ++report_.segments;
  const bool steered = !steered_.ports().empty() && steered_.ports().front() == port_;
  const auto found = std::find_if(report_.ports.begin(), report_.ports.end(), [&](const auto& use) {
    return use.port == port_ && use.steered == steered;
  });
  PortUse& use = found != report_.ports.end()
                     ? *found
                     : report_.ports.emplace_back(PortUse{port_, steered, 0});
  use.bytes += kDatagramBytes;
}

void UdpSender::Finish() {
  timer_.reset();
  steered_.Close();
}

}  // namespace espalier::traffic
