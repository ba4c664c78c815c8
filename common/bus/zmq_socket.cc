#include "common/bus/zmq_socket.h"

#include <fmt/format.h>
#include <zmq.h>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <charconv>
#include <utility>

#include "common/base/check.h"

namespace espalier::io {
namespace {

// Owns the ZeroMQ context for the lifetime of the loop's io_context.
class ZmqContextService : public boost::asio::execution_context::service {
 public:
  using key_type = ZmqContextService;
  static inline boost::asio::execution_context::id id;

  explicit ZmqContextService(boost::asio::execution_context& owner)
      : boost::asio::execution_context::service(owner), context_(zmq_ctx_new()) {
    ESPALIER_CHECK(context_ != nullptr, "errno={}", errno);
    zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, kMaxSockets);
  }
  ~ZmqContextService() override { zmq_ctx_term(context_); }

  void* context() { return context_; }

 private:
  static constexpr int kMaxSockets = 65'536;

  void shutdown() override {}

  void* context_;
};

ErrorCode CodeOf(int error) {
  switch (error) {
    case EINVAL:
    case EPROTONOSUPPORT:
    case ENOCOMPATPROTO:
      return ErrorCode::kInvalidArgument;
    case EACCES:
    case EPERM:
      return ErrorCode::kPermissionDenied;
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case ENODEV:
      return ErrorCode::kUnavailable;
    case ENOENT:
      return ErrorCode::kNotFound;
    default:
      return ErrorCode::kInternal;
  }
}

tl::unexpected<Error> EndpointError(const std::string& endpoint, int error) {
  return Fail(CodeOf(error), fmt::format("{}: {}", endpoint, zmq_strerror(error)));
}

// Checks the port, as libzmq takes that of "tcp://host:70000" modulo 65536.
Result<void> CheckTcpPort(const std::string& endpoint) {
  if (!endpoint.starts_with("tcp://")) return {};
  const std::string_view port = std::string_view(endpoint).substr(endpoint.rfind(':') + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_number = error == std::errc() && end == port.data() + port.size();
  if (port == "*" || (is_number && number <= 65'535)) return {};
  return EndpointError(endpoint, EINVAL);
}

tl::unexpected<Error> NoSocket() {
  return Fail(
      ErrorCode::kResourceExhausted,
      fmt::format("cannot open a ZeroMQ socket: {} (allow the process more descriptors: ulimit -n, "
                  "or LimitNOFILE= in its unit)",
                  zmq_strerror(errno)));
}

int ZmqType(ZmqSocket::Type type) {
  switch (type) {
    case ZmqSocket::Type::kRouter:
      return ZMQ_ROUTER;
    case ZmqSocket::Type::kDealer:
      return ZMQ_DEALER;
    case ZmqSocket::Type::kPair:
      return ZMQ_PAIR;
  }
  ESPALIER_CHECK(false, "type={}", static_cast<int>(type));
  return ZMQ_PAIR;
}

}  // namespace

void* ZmqContextOf(AsioEventLoop& loop) {
  auto& context = *static_cast<boost::asio::io_context*>(loop.context());
  return boost::asio::use_service<ZmqContextService>(context).context();
}

void SetZmqThreads(AsioEventLoop& loop, int threads) {
  zmq_ctx_set(ZmqContextOf(loop), ZMQ_IO_THREADS, threads);
}

struct ZmqFrame::Impl {
  zmq_msg_t message;
};

ZmqFrame::ZmqFrame() : impl_(std::make_unique<Impl>()) { zmq_msg_init(&impl_->message); }
ZmqFrame::~ZmqFrame() { zmq_msg_close(&impl_->message); }

std::string_view ZmqFrame::bytes() const {
  return {static_cast<const char*>(zmq_msg_data(&impl_->message)), zmq_msg_size(&impl_->message)};
}

bool ZmqFrame::HasMore() const { return zmq_msg_more(&impl_->message) != 0; }

std::string_view ZmqFrame::UserId() const {
  const char* const id = zmq_msg_gets(&impl_->message, "User-Id");
  return id != nullptr ? id : "";
}

std::string_view ZmqFrame::PeerAddress() const {
  const char* const address = zmq_msg_gets(&impl_->message, "Peer-Address");
  return address != nullptr ? address : "";
}

int ZmqFrame::SourceDescriptor() const { return zmq_msg_get(&impl_->message, ZMQ_SRCFD); }

// ZMQ_FD is edge-triggered: it becomes readable when something changes inside libzmq, and any call
// on the socket may consume that edge. A turn therefore continues until a receive finds nothing,
// which means that libzmq has processed everything, and a turn follows every send outside of one.
struct ZmqSocket::Impl : std::enable_shared_from_this<ZmqSocket::Impl> {
  // Takes ownership of the socket.
  Impl(AsioEventLoop& the_loop, void* the_socket) : loop(the_loop), socket(the_socket) {}
  ~Impl() {
    watch.reset();  // before the descriptor is closed
    zmq_close(socket);
  }

  void PostTurn() {
    if (turn_posted || in_turn || !take_one) return;
    turn_posted = true;
    loop.Post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->turn_posted = false;
      self->Turn();
    });
  }

  void Turn() {
    in_turn = true;
    int taken = 0;
    while (taken < kMessagesPerTurn && take_one()) ++taken;
    in_turn = false;
    if (taken == kMessagesPerTurn) PostTurn();
  }

  AsioEventLoop& loop;
  void* const socket;
  std::function<bool()> take_one;
  TimerPtr watch;
  bool turn_posted = false;
  bool in_turn = false;
};

ZmqSocket::ZmqSocket(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) { Set(ZMQ_LINGER, 0); }

Result<ZmqSocket> ZmqSocket::Open(AsioEventLoop& loop, Type type) {
  void* const socket = zmq_socket(ZmqContextOf(loop), ZmqType(type));
  if (socket == nullptr) return NoSocket();
  return ZmqSocket(std::make_shared<Impl>(loop, socket));
}

ZmqSocket::~ZmqSocket() = default;
ZmqSocket::ZmqSocket(ZmqSocket&&) noexcept = default;

void ZmqSocket::Set(int option, int value) {
  const int rc = zmq_setsockopt(impl_->socket, option, &value, sizeof value);
  ESPALIER_CHECK(rc == 0, "option={} value={} error={}", option, value, zmq_strerror(errno));
}

void ZmqSocket::Set(int option, std::int64_t value) {
  const int rc = zmq_setsockopt(impl_->socket, option, &value, sizeof value);
  ESPALIER_CHECK(rc == 0, "option={} value={} error={}", option, value, zmq_strerror(errno));
}

void ZmqSocket::Set(int option, std::string_view value) {
  const int rc = zmq_setsockopt(impl_->socket, option, value.data(), value.size());
  ESPALIER_CHECK(rc == 0, "option={} error={}", option, zmq_strerror(errno));
}

Result<void> ZmqSocket::Bind(const std::string& endpoint) {
  if (Result<void> checked = CheckTcpPort(endpoint); !checked) return checked;
  if (zmq_bind(impl_->socket, endpoint.c_str()) != 0) return EndpointError(endpoint, errno);
  return {};
}

Result<void> ZmqSocket::Connect(const std::string& endpoint) {
  if (Result<void> checked = CheckTcpPort(endpoint); !checked) return checked;
  if (zmq_connect(impl_->socket, endpoint.c_str()) != 0) return EndpointError(endpoint, errno);
  return {};
}

std::string ZmqSocket::LastEndpoint() const {
  std::string text(512, '\0');
  std::size_t size = text.size();
  const int rc = zmq_getsockopt(impl_->socket, ZMQ_LAST_ENDPOINT, text.data(), &size);
  ESPALIER_CHECK(rc == 0, "error={}", zmq_strerror(errno));
  text.resize(size - 1);  // the terminating NUL
  return text;
}

Result<void> ZmqSocket::Monitor(const std::string& inproc_endpoint, int events) {
  if (zmq_socket_monitor(impl_->socket, inproc_endpoint.c_str(), events) == 0) return {};
  return NoSocket();
}

void ZmqSocket::StopMonitor() { zmq_socket_monitor(impl_->socket, nullptr, 0); }

void ZmqSocket::OnReadable(std::function<bool()> take_one) {
  impl_->take_one = std::move(take_one);
  int fd = -1;
  std::size_t size = sizeof fd;
  const int rc = zmq_getsockopt(impl_->socket, ZMQ_FD, &fd, &size);
  ESPALIER_CHECK(rc == 0, "error={}", zmq_strerror(errno));
  impl_->watch = impl_->loop.WatchReadable(fd, [impl = impl_.get()] { impl->Turn(); });
  impl_->PostTurn();  // the descriptor of a new socket signals nothing until the socket was read
                      // once
}

bool ZmqSocket::Receive(ZmqFrame& frame) {
  int rc;
  do {
    rc = zmq_msg_recv(&frame.impl_->message, impl_->socket, ZMQ_DONTWAIT);
  } while (rc < 0 && errno == EINTR);
  ESPALIER_CHECK(rc >= 0 || errno == EAGAIN, "error={}", zmq_strerror(errno));
  return rc >= 0;
}

int ZmqSocket::Send(std::span<const std::string_view> frames) {
  int error = 0;
  for (std::size_t i = 0; i < frames.size() && error == 0; ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    int rc;
    do {
      rc = zmq_send(impl_->socket, frames[i].data(), frames[i].size(), flags);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0) error = errno;
  }
  impl_->PostTurn();
  return error;
}

}  // namespace espalier::io
