#include "deploy/lab/traffic/tcp_sender.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/base/log.h"
#include "deploy/lab/traffic/endpoint.h"

namespace espalier::traffic {
namespace {

using std::chrono::milliseconds;

// How long a segment may make no progress before another port is taken, where there is one.
constexpr milliseconds kStall{300};
constexpr milliseconds kRetryPause{50};
constexpr int kTicksPerTransportReport = 5;
// What the kernel may hold unsent: little, so that progress is seen as it is made.
constexpr int kUnsentBytes = 131'072;

alignas(64) constexpr std::array<char, 65'536> kPayload{};

void SetOption(int socket, int level, int name, int value) {
  // A refused option costs some speed or a slower close, nothing else.
  static_cast<void>(::setsockopt(socket, level, name, &value, sizeof value));
}

void CloseByReset(UniqueFd& socket) {
  // All is acknowledged or to be sent again: a reset leaves no TIME_WAIT, so that the port can be
  // used again at once.
  const linger reset{1, 0};
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
  socket.Close();
}

}  // namespace

TcpSender::TcpSender(io::AsioEventLoop& loop, const Options& options, SteeredFlow steered,
                     std::function<void(std::int64_t)> on_acknowledged)
    : loop_(loop),
      options_(options),
      steered_(std::move(steered)),
      on_acknowledged_(std::move(on_acknowledged)) {
  report_.index = options.flow;
}

void TcpSender::Send(std::int64_t bytes) {
  if (report_.start_ns == 0) report_.start_ns = loop_.Now().time_since_epoch().count();
  report_.done = false;
  to_send_ += bytes;
  for (; bytes > 0; bytes -= std::min(bytes, options_.segment_bytes)) {
    queue_.push_back(std::min(bytes, options_.segment_bytes));
  }
  if (step_ == Step::kIdle) {
    step_ = Step::kPausing;  // until the loop comes round
    pause_ = loop_.After(Duration::zero(), [this] { StartSegment(); });
  }
}

std::uint16_t TcpSender::PortInForce() const {
  const std::uint16_t wanted = steered_.port().value_or(options_.own_port);
  if (wanted != avoided_) return wanted;
  return socket_ ? port_ : options_.own_port;
}

void TcpSender::StartSegment() {
  pause_.reset();
  if (queue_begin_ == queue_.size()) {
    queue_.clear();
    queue_begin_ = 0;
    step_ = Step::kIdle;
    watch_.reset();
    report_.done = true;
    ReportProgress();
    return;
  }
  steered_.Refresh();
  last_progress_ = loop_.Now();
  written_ = 0;
  ack_bytes_ = 0;
  const std::uint16_t port = PortInForce();
  if (!socket_ || port != port_) {
    Connect(port);
    return;
  }
  header_bytes_ = sizeof(SegmentHeader);
  step_ = Step::kSending;
  AwaitWritable();
}

bool TcpSender::OpenSocket(std::uint16_t port) {
  const Endpoint from(options_.source, port);
  const Endpoint to(options_.destination, kTrafficPort);
  socket_ =
      UniqueFd(::socket(from.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket_) return false;
  SetOption(socket_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(socket_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket_.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
  return ::bind(socket_.get(), from.data(), from.size()) == 0 &&
         (::connect(socket_.get(), to.data(), to.size()) == 0 || errno == EINPROGRESS);
}

void TcpSender::Connect(std::uint16_t port) {
  CloseSocket();
  if (!OpenSocket(port)) {
    const int error = errno;
    socket_.Close();
    if ((error == EADDRINUSE || error == EADDRNOTAVAIL) && port != options_.own_port) {
      ++report_.port_conflicts;
      avoided_ = port;
    }
    Retry();
    return;
  }
  port_ = port;
  step_ = Step::kConnecting;
  AwaitWritable();
}

void TcpSender::AwaitWritable() {
  watch_.reset();
  watch_ = loop_.WatchWritable(socket_.get(), [this] { HandleWritable(); });
}

void TcpSender::HandleWritable() {
  if (step_ == Step::kConnecting) FinishConnecting();
  if (step_ == Step::kSending) SendMore();
}

void TcpSender::FinishConnecting() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    Retry();
    return;
  }
  header_bytes_ = sizeof(ConnectionHeader) + sizeof(SegmentHeader);
  step_ = Step::kSending;
}

void TcpSender::SendMore() {
  const std::int64_t length = queue_[queue_begin_];
  std::array<char, sizeof(ConnectionHeader) + sizeof(SegmentHeader)> headers{};
  const ConnectionHeader connection{.flow = options_.flow};
  const SegmentHeader segment{sequence_, static_cast<std::uint64_t>(length)};
  const bool first = header_bytes_ > static_cast<std::int64_t>(sizeof segment);
  char* end = headers.data();
  if (first) end = std::copy_n(reinterpret_cast<const char*>(&connection), sizeof connection, end);
  std::copy_n(reinterpret_cast<const char*>(&segment), sizeof segment, end);
  while (written_ < header_bytes_ + length) {
    std::array<iovec, 2> parts{};
    const std::int64_t of_headers = std::min(written_, header_bytes_);
    const std::int64_t of_payload = written_ - of_headers;
    parts[0] = {headers.data() + of_headers, static_cast<std::size_t>(header_bytes_ - of_headers)};
    parts[1] = {const_cast<char*>(kPayload.data()),
                std::min(kPayload.size(), static_cast<std::size_t>(length - of_payload))};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      Retry();
      return;
    }
    written_ += n;
  }
  step_ = Step::kAwaitingAck;
  watch_.reset();
  watch_ = loop_.WatchReadable(socket_.get(), [this] { HandleReadable(); });
}

void TcpSender::HandleReadable() {
  const ssize_t n = ::recv(socket_.get(), reinterpret_cast<char*>(&ack_) + ack_bytes_,
                           sizeof ack_ - ack_bytes_, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    Retry();
    return;
  }
  ack_bytes_ += static_cast<std::size_t>(n);
  if (ack_bytes_ == sizeof ack_) HandleAck();
}

void TcpSender::HandleAck() {
  if (ack_ != sequence_) {
    Log(LogLevel::kError, "event=wrong_ack flow={} got={} want={}", options_.flow, ack_, sequence_);
    Retry();
    return;
  }
  const std::int64_t length = queue_[queue_begin_++];
  ++sequence_;
  to_send_ -= length;
  report_.bytes += length;
  ++report_.segments;
  report_.end_ns = loop_.Now().time_since_epoch().count();
  Use(port_).bytes += length;
  written_ = 0;
  StartSegment();  // before the callback, which may Send
  on_acknowledged_(report_.bytes);
}

void TcpSender::Retry() {
  CloseSocket();
  written_ = 0;
  step_ = Step::kPausing;
  pause_ = loop_.After(kRetryPause, [this] { StartSegment(); });
}

void TcpSender::Abandon() {
  if (step_ != Step::kConnecting) ++report_.abandoned;
  CloseSocket();
  StartSegment();
}

void TcpSender::CloseSocket() {
  watch_.reset();
  if (socket_) CloseByReset(socket_);
  old_retries_ += std::exchange(retries_, 0);
}

void TcpSender::HandleNews() {
  steered_.Refresh();
  const bool in_flight =
      step_ == Step::kConnecting || step_ == Step::kSending || step_ == Step::kAwaitingAck;
  if (in_flight && steered_.is_path_dead() && PortInForce() != port_) Abandon();
}

void TcpSender::HandleTick() {
  steered_.Refresh();
  if (step_ == Step::kIdle) return;
  ReportProgress();
  if (++ticks_ % kTicksPerTransportReport == 0) ReportTransport();
  const std::int64_t acknowledged = report_.bytes + InFlightAcknowledged();
  const TimePoint now = loop_.Now();
  if (acknowledged != last_acknowledged_) {
    last_acknowledged_ = acknowledged;
    last_progress_ = now;
  }
  if (step_ != Step::kPausing && now - last_progress_ >= kStall && PortInForce() != port_) {
    Abandon();
  }
}

void TcpSender::Finish() {
  pause_.reset();
  CloseSocket();
  steered_.Close();
}

PortUse& TcpSender::Use(std::uint16_t port) {
  const bool steered = port != options_.own_port || steered_.port() == port;
  const auto found = std::find_if(report_.ports.begin(), report_.ports.end(), [&](const auto& use) {
    return use.port == port && use.steered == steered;
  });
  if (found != report_.ports.end()) return *found;
  return report_.ports.emplace_back(PortUse{port, steered, 0});
}

std::int64_t TcpSender::InFlightAcknowledged() const {
  if (step_ != Step::kSending && step_ != Step::kAwaitingAck) return 0;
  int queued = 0;
  if (::ioctl(socket_.get(), SIOCOUTQ, &queued) != 0) return 0;
  return std::max<std::int64_t>(0, written_ - header_bytes_ - queued);
}

void TcpSender::ReportProgress() {
  const std::int64_t acknowledged = InFlightAcknowledged();
  // A ring's edge that waits for its turn has nothing to send; one that sends has the rest of its
  // epoch before it.
  std::int64_t remaining = 0;
  if (to_send_ > 0) {
    const std::int64_t rest = options_.epoch_bytes - report_.bytes % options_.epoch_bytes;
    remaining = std::max(to_send_, rest) - acknowledged;
  }
  const bool in_flight = step_ == Step::kSending || step_ == Step::kAwaitingAck;
  const std::int64_t outstanding =
      in_flight ? std::max<std::int64_t>(0, written_ - header_bytes_ - acknowledged) : 0;
  steered_.Report(std::max<std::int64_t>(0, remaining - outstanding), outstanding,
                  report_.bytes + acknowledged, socket_ ? port_ : PortInForce());
}

void TcpSender::ReportTransport() {
  if (!socket_) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  retries_ = info.tcpi_total_retrans;
  steered_.ReportTransport(old_retries_ + retries_, info.tcpi_rtt);
}

SentFlow TcpSender::Report() const { return report_; }

}  // namespace espalier::traffic
