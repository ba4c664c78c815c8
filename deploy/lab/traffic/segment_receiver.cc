#include "deploy/lab/traffic/segment_receiver.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/os/os_error.h"
#include "deploy/lab/traffic/endpoint.h"
#include "deploy/lab/traffic/segment_format.h"

namespace espalier::traffic {
namespace {

constexpr int kBacklog = 1024;
constexpr int kReadsPerWakeup = 16;
constexpr std::size_t kReadBytes = 262'144;

}  // namespace

// One connection, which carries a header and then segments.
class SegmentReceiver::Connection {
 public:
  Connection(SegmentReceiver& receiver, UniqueFd socket)
      : receiver_(receiver), socket_(std::move(socket)) {
    watch_ = receiver_.loop_.WatchReadable(socket_.get(), [this] {
      if (!Read()) receiver_.connections_.erase(socket_.get());  // destroys this
    });
  }
  ~Connection() { watch_.reset(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 private:
  // Returns false if the connection has ended.
  bool Read() {
    for (int i = 0; i < kReadsPerWakeup; ++i) {
      const ssize_t n = payload_left_ > 0 ? ReadPayload() : ReadHeader();
      if (n == 0) return false;
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      if (!broken_) continue;
      return false;
    }
    return true;
  }

  ssize_t ReadHeader() {
    char* const begin =
        has_flow_ ? reinterpret_cast<char*>(&segment_) : reinterpret_cast<char*>(&header_);
    const std::size_t size = has_flow_ ? sizeof segment_ : sizeof header_;
    const ssize_t n = ::recv(socket_.get(), begin + filled_, size - filled_, MSG_DONTWAIT);
    if (n > 0) filled_ += static_cast<std::size_t>(n);
    if (n <= 0 || filled_ < size) return n;
    filled_ = 0;
    if (has_flow_) {
      payload_left_ = segment_.length;
      broken_ = segment_.length == 0;
    } else {
      has_flow_ = true;
      broken_ = header_.magic != kMagic || !receiver_.HasFlow(header_.flow);
    }
    return n;
  }

  ssize_t ReadPayload() {
    // TCP discards the payload without copying it.
    const ssize_t n = ::recv(socket_.get(), nullptr, std::min(payload_left_, kReadBytes),
                             MSG_DONTWAIT | MSG_TRUNC);
    if (n <= 0) return n;
    payload_left_ -= static_cast<std::size_t>(n);
    if (payload_left_ > 0) return n;
    // Eight bytes fit into an empty buffer, unless the connection is broken.
    broken_ = ::send(socket_.get(), &segment_.sequence, sizeof segment_.sequence,
                     MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof segment_.sequence;
    receiver_.HandleSegment(header_.flow, segment_.sequence,
                            static_cast<std::int64_t>(segment_.length));
    return n;
  }

  SegmentReceiver& receiver_;
  UniqueFd socket_;
  TimerPtr watch_;
  ConnectionHeader header_;
  SegmentHeader segment_;
  bool has_flow_ = false;
  bool broken_ = false;
  std::size_t filled_ = 0;
  std::size_t payload_left_ = 0;
};

Result<std::unique_ptr<SegmentReceiver>> SegmentReceiver::Listen(
    io::AsioEventLoop& loop, const IpAddress& address, const std::vector<std::uint32_t>& flows,
    OnReceived on_received) {
  const Endpoint endpoint(address, kTrafficPort);
  UniqueFd socket(
      ::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  const int on = 1;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), endpoint.data(), endpoint.size()) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return FailErrno("listening on " + address.ToString() + " port 4791", errno);
  }
  std::unique_ptr<SegmentReceiver> receiver(
      new SegmentReceiver(loop, std::move(socket), std::move(on_received)));
  for (const std::uint32_t flow : flows) receiver->flows_[flow].received.index = flow;
  return receiver;
}

SegmentReceiver::SegmentReceiver(io::AsioEventLoop& loop, UniqueFd socket, OnReceived on_received)
    : loop_(loop), socket_(std::move(socket)), on_received_(std::move(on_received)) {
  watch_ = loop_.WatchReadable(socket_.get(), [this] { Accept(); });
}

SegmentReceiver::~SegmentReceiver() {
  connections_.clear();
  watch_.reset();
}

void SegmentReceiver::Accept() {
  UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) return;
  // An acknowledgement must not wait for that of the one before, which the sender's TCP delays.
  const int on = 1;
  static_cast<void>(::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  const int fd = socket.get();
  connections_[fd] = std::make_unique<Connection>(*this, std::move(socket));
}

void SegmentReceiver::HandleSegment(std::uint32_t flow, std::uint64_t sequence,
                                    std::int64_t length) {
  Flow& state = flows_[flow];
  if (sequence < state.next || state.early.contains(sequence)) {
    ++state.received.duplicates;
    return;
  }
  ++state.received.segments;
  state.received.bytes += length;
  state.early[sequence] = length;
  while (!state.early.empty() && state.early.begin()->first == state.next) {
    ++state.next;
    state.whole_bytes += state.early.begin()->second;
    state.early.erase(state.early.begin());
  }
  on_received_(flow, state.whole_bytes);
}

std::vector<ReceivedFlow> SegmentReceiver::Report() const {
  std::vector<ReceivedFlow> report;
  for (const auto& [index, flow] : flows_) report.push_back(flow.received);
  return report;
}

}  // namespace espalier::traffic
