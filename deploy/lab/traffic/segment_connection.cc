#include "deploy/lab/traffic/segment_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "common/base/log.h"
#include "common/os/os_error.h"
#include "deploy/lab/traffic/endpoint.h"
#include "deploy/lab/traffic/segment_format.h"

namespace espalier::traffic {
namespace {

// Limits what the connections of a flow have in the kernel and in flight (the kernel doubles the
// number for its own needs). It is less than the queue of a lab's link, so that flows that have
// their links to themselves lose nothing, as on a lossless fabric. It is also small enough for a
// new port to take effect soon, and for a slow path not to hold much of what a fast one could take.
constexpr int kSendBuffer = 98'304;
constexpr int kLeastSendBuffer = 12'288;
// A connection that is not established by then has probably lost a packet.
constexpr std::chrono::milliseconds kLongestHandshake{100};

alignas(64) constexpr std::array<char, 65'536> kPayload{};

void SetOption(int socket, int level, int name, int value) {
  // A refused option only costs some speed or makes the close slower.
  static_cast<void>(::setsockopt(socket, level, name, &value, sizeof value));
}

}  // namespace

SegmentConnection::SegmentConnection(io::AsioEventLoop& loop, const Options& options,
                                     Handlers handlers)
    : loop_(loop), options_(options), handlers_(std::move(handlers)), last_progress_(loop.Now()) {}

Result<std::unique_ptr<SegmentConnection>> SegmentConnection::Open(io::AsioEventLoop& loop,
                                                                   const Options& options,
                                                                   Handlers handlers) {
  std::unique_ptr<SegmentConnection> connection(
      new SegmentConnection(loop, options, std::move(handlers)));
  if (!connection->Connect()) {
    const int error = errno;
    const std::string what = fmt::format("connection from port {}", options.port);
    if (error == EADDRINUSE || error == EADDRNOTAVAIL) {
      return Fail(ErrorCode::kAlreadyExists,
                  what + ": another connection has the same addresses and ports");
    }
    return FailErrno(what, error);
  }
  return connection;
}

bool SegmentConnection::Connect() {
  const Endpoint from(options_.source, options_.port);
  const Endpoint to(options_.destination, kTrafficPort);
  socket_ =
      UniqueFd(::socket(from.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket_) return false;
  SetOption(socket_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(socket_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket_.get(), SOL_SOCKET, SO_SNDBUF,
            std::max(kLeastSendBuffer, kSendBuffer / options_.paths));
  if (::bind(socket_.get(), from.data(), from.size()) != 0 ||
      (::connect(socket_.get(), to.data(), to.size()) != 0 && errno != EINPROGRESS)) {
    return false;
  }
  write_side_ = UniqueFd(::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0));
  if (!write_side_) return false;
  writable_ = loop_.WatchWritable(write_side_.get(), [this] { HandleWritable(); });
  return true;
}

void SegmentConnection::Push(const Segment& segment) {
  const std::int64_t preamble = any_pushed_ ? 0 : std::int64_t{sizeof(ConnectionHeader)};
  any_pushed_ = true;
  if (writing_.empty() && unacknowledged_.empty()) last_progress_ = loop_.Now();
  writing_.push_back(
      {.segment = segment, .header_bytes = preamble + std::int64_t{sizeof(SegmentHeader)}});
  if (connected_ && !writable_) {
    writable_ = loop_.WatchWritable(write_side_.get(), [this] { HandleWritable(); });
  }
}

std::vector<Segment> SegmentConnection::Unacknowledged() const {
  std::vector<Segment> segments;
  for (const Writing& written : unacknowledged_) segments.push_back(written.segment);
  for (const Writing& writing : writing_) segments.push_back(writing.segment);
  return segments;
}

void SegmentConnection::Close() {
  if (!socket_) return;
  readable_.reset();
  writable_.reset();
  write_side_.Close();
  // Everything is acknowledged or will be sent again, and a reset avoids TIME_WAIT.
  const linger reset{1, 0};
  static_cast<void>(::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
  socket_.Close();
}

void SegmentConnection::LimitRate(std::uint64_t rate_bps) {
  if (rate_bps == max_rate_bps_ || !socket_) return;
  max_rate_bps_ = rate_bps;
  const std::uint64_t bytes_per_second =
      rate_bps == 0 ? std::numeric_limits<std::uint64_t>::max() : (rate_bps + 7) / 8;
  // A limit is advice: if the kernel refuses it, the rate stays as it is.
  static_cast<void>(::setsockopt(socket_.get(), SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second,
                                 sizeof bytes_per_second));
}

void SegmentConnection::HandleWritable() {
  if (!(connected_ || FinishConnecting()) || !WriteSome()) {
    Close();
    handlers_.on_broken();
    return;
  }
  if (!writing_.empty()) return;
  writable_.reset();
  handlers_.on_ready();
}

bool SegmentConnection::FinishConnecting() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    return false;
  }
  connected_ = true;
  readable_ = loop_.WatchReadable(socket_.get(), [this] { HandleReadable(); });
  return true;
}

// Returns false if the connection is broken.
bool SegmentConnection::WriteSome() {
  while (!writing_.empty()) {
    Writing& now = writing_.front();
    std::array<char, sizeof(ConnectionHeader) + sizeof(SegmentHeader)> headers{};
    const ConnectionHeader connection{.flow = options_.flow};
    const SegmentHeader segment{now.segment.sequence,
                                static_cast<std::uint64_t>(now.segment.length)};
    char* end = headers.data();
    if (now.header_bytes > std::int64_t{sizeof segment}) {
      end = std::copy_n(reinterpret_cast<const char*>(&connection), sizeof connection, end);
    }
    std::copy_n(reinterpret_cast<const char*>(&segment), sizeof segment, end);
    const std::int64_t of_headers = std::min(now.done, now.header_bytes);
    const std::int64_t payload_left = now.segment.length - (now.done - of_headers);
    std::array<iovec, 2> parts{
        iovec{headers.data() + of_headers, static_cast<std::size_t>(now.header_bytes - of_headers)},
        iovec{const_cast<char*>(kPayload.data()),
              std::min(kPayload.size(), static_cast<std::size_t>(payload_left))}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    now.done += n;
    written_ += n;
    if (now.done < now.header_bytes + now.segment.length) continue;
    unacknowledged_.push_back(now);
    writing_.pop_front();
  }
  return true;
}

void SegmentConnection::HandleReadable() {
  while (socket_) {
    const ssize_t n = ::recv(socket_.get(), reinterpret_cast<char*>(&ack_) + ack_bytes_,
                             sizeof ack_ - ack_bytes_, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      Close();
      handlers_.on_broken();
      return;
    }
    ack_bytes_ += static_cast<std::size_t>(n);
    if (ack_bytes_ == sizeof ack_) HandleAck();
  }
}

void SegmentConnection::HandleAck() {
  ack_bytes_ = 0;
  if (unacknowledged_.empty() || unacknowledged_.front().segment.sequence != ack_) {
    Log(LogLevel::kError, "event=wrong_ack flow={} sequence={}", options_.flow, ack_);
    Close();
    handlers_.on_broken();
    return;
  }
  const Writing done = unacknowledged_.front();
  unacknowledged_.pop_front();
  completed_ += done.done;
  handlers_.on_acknowledged(done.segment);
}

std::int64_t SegmentConnection::BytesArrived() const {
  int queued = 0;
  if (!connected_ || !socket_ || ::ioctl(socket_.get(), SIOCOUTQ, &queued) != 0) return 0;
  return std::max<std::int64_t>(0, BytesWithKernel() - queued);
}

void SegmentConnection::Watch() {
  const bool waits = !writing_.empty() || !unacknowledged_.empty();
  const std::int64_t arrived = BytesEverArrived();
  if (waits && arrived == last_arrived_) return;
  last_arrived_ = arrived;
  last_progress_ = loop_.Now();
}

SegmentConnection::Transport SegmentConnection::ReadTransport() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (!socket_ || ::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return {};
  }
  // The kernel repeats a lost first packet after a whole second only.
  const bool is_repeating = !connected_ && loop_.Now() - last_progress_ >= kLongestHandshake;
  return {info.tcpi_total_retrans + (is_repeating ? 1U : 0U), info.tcpi_rtt};
}

}  // namespace espalier::traffic
