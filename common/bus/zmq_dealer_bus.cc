#include "common/bus/zmq_dealer_bus.h"

#include <fmt/format.h>
#include <zmq.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/bus/zmq_frames.h"
#include "common/bus/zmq_socket.h"

namespace espalier::io {
namespace {

using namespace std::chrono_literals;

constexpr int kConnectTimeoutMs = 5000;
constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                        ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED;

// A connection attempt and, if it succeeds, the connection: one DEALER socket, and the PAIR socket
// that reports its events. libzmq does not reconnect it.
class DealerConnection {
 public:
  // server_key: the index of the expected key in options.curve.
  static Result<std::unique_ptr<DealerConnection>> Open(AsioEventLoop& loop,
                                                        const ZmqDealerOptions& options,
                                                        std::size_t server_key,
                                                        const std::string& routing_id) {
    Result<ZmqSocket> dealer = ZmqSocket::Open(loop, ZmqSocket::Type::kDealer);
    if (!dealer) return Propagate(dealer);
    Result<ZmqSocket> monitor = ZmqSocket::Open(loop, ZmqSocket::Type::kPair);
    if (!monitor) return Propagate(monitor);
    std::unique_ptr<DealerConnection> made(
        new DealerConnection(std::move(*dealer), std::move(*monitor)));
    Result<void> connected = made->Connect(options, server_key, routing_id);
    if (!connected) return Propagate(connected);
    return made;
  }

  // Stops the events before their receiver is closed: otherwise libzmq's I/O thread, which all
  // sockets share, blocks forever on an event that nobody reads.
  ~DealerConnection() { dealer_.StopMonitor(); }

  ZmqSocket& dealer() { return dealer_; }
  ZmqSocket& monitor() { return monitor_; }

 private:
  DealerConnection(ZmqSocket dealer, ZmqSocket monitor)
      : dealer_(std::move(dealer)), monitor_(std::move(monitor)) {}

  Result<void> Connect(const ZmqDealerOptions& options, std::size_t server_key,
                       const std::string& routing_id) {
    SetLimits(dealer_, options.send_high_water_mark);
    BreakSilentConnections(dealer_, options.silence_limit);
    if (options.curve) {
      dealer_.Set(ZMQ_CURVE_SERVERKEY, options.curve->server_public_keys[server_key]);
      dealer_.Set(ZMQ_CURVE_PUBLICKEY, options.curve->own.public_key);
      dealer_.Set(ZMQ_CURVE_SECRETKEY, options.curve->own.secret_key);
    }
    dealer_.Set(ZMQ_RECONNECT_IVL, -1);
    dealer_.Set(ZMQ_CONNECT_TIMEOUT, kConnectTimeoutMs);
    dealer_.Set(ZMQ_ROUTING_ID, routing_id);
    std::string events = "inproc://connection-";
    for (const char c : routing_id) events += fmt::format("{:02x}", static_cast<unsigned char>(c));
    if (Result<void> told = dealer_.Monitor(events, kEvents); !told) return told;
    if (Result<void> joined = monitor_.Connect(events); !joined) return joined;
    return dealer_.Connect(options.endpoint);
  }

  ZmqSocket dealer_;
  ZmqSocket monitor_;
};

class DealerBus : public ZmqDealerBus {
 public:
  DealerBus(AsioEventLoop& loop, const ZmqDealerOptions& options)
      : loop_(loop), options_(options), joiner_(options.max_message_bytes) {}

  Result<void> Open() {
    auto opened = DealerConnection::Open(loop_, options_, server_key_, RandomRoutingId());
    if (!opened) return Propagate(opened);
    connection_ = std::move(*opened);
    established_ = false;
    return {};
  }

  void SetHandlers(Handlers handlers) override {
    handlers_ = std::move(handlers);
    Listen();
  }

  void SetKeys(CurveClient keys) override {
    options_.curve = std::move(keys);
    server_key_ = 0;
    if (IsOpen()) Break();
  }

  bool Send(PeerId to, std::string bytes) override {
    ESPALIER_CHECK(to == kControllerPeer && !bytes.empty(), "peer={}", to.value());
    if (!IsOpen()) return false;
    return SendInFrames(connection_->dealer(), "", bytes) == 0;
  }

  void Disconnect(PeerId peer) override {
    ESPALIER_CHECK(peer == kControllerPeer, "peer={}", peer.value());
    if (IsOpen()) Reopen(RandomPause(50ms, 150ms));
  }

 private:
  bool IsOpen() const { return reopening_ == nullptr; }

  void Listen() {
    connection_->dealer().OnReadable([this] { return TakeMessage(); });
    connection_->monitor().OnReadable([this] { return TakeEvent(); });
  }

  bool TakeMessage() {
    if (!IsOpen()) return false;
    const FrameJoiner::Message message = joiner_.Receive(connection_->dealer());
    if (!message.received) return false;
    established_ = true;
    if (message.bytes.empty() || message.too_large) {
      Break();  // an empty message is the controller's goodbye
      return false;
    }
    handlers_.on_message(kControllerPeer, message.bytes);
    return true;
  }

  bool TakeEvent() {
    if (!IsOpen() || !connection_->monitor().Receive(event_)) return false;
    std::uint16_t event = 0;  // then 4 bytes of value; the endpoint is the second frame
    ESPALIER_CHECK(event_.bytes().size() >= sizeof event);
    std::memcpy(&event, event_.bytes().data(), sizeof event);
    while (event_.HasMore() && connection_->monitor().Receive(event_)) continue;
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      established_ = true;
      return true;
    }
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
      Log(LogLevel::kWarning,
          "event=key_refused controller={} remedy=\"register this agent's key there: espalier keys "
          "list\"",
          options_.endpoint);
      Reopen(RandomPause(2s, 4s));
      return false;
    }
    while (TakeMessage()) continue;  // messages that arrived before the end
    if (IsOpen()) Break();
    return false;
  }

  // Handles a connection that the other side ended or never answered.
  void Break() {
    const bool was_established = established_;
    if (!was_established && options_.curve) {
      server_key_ = (server_key_ + 1) % options_.curve->server_public_keys.size();
    }
    Reopen(RandomPause(50ms, 150ms));
    if (was_established && handlers_.on_peer_gone) handlers_.on_peer_gone(kControllerPeer);
  }

  // Closes in a later turn of the loop, as this may run in a callback of the socket.
  void Reopen(Duration pause) {
    reopening_ = loop_.After(0s, [this, pause] {
      connection_.reset();
      reopening_ = loop_.After(pause, [this] { TryAgain(); });
    });
  }

  void TryAgain() {
    const Result<void> opened = Open();
    if (!opened) {
      Log(LogLevel::kError, "event=controller_not_called error=\"{}\"", opened.error().message);
      reopening_ = loop_.After(RandomPause(2s, 4s), [this] { TryAgain(); });
      return;
    }
    reopening_.reset();
    Listen();
  }

  Duration RandomPause(std::chrono::milliseconds least, std::chrono::milliseconds most) {
    return std::chrono::milliseconds(
        std::uniform_int_distribution<std::int64_t>(least.count(), most.count())(random_));
  }

  std::string RandomRoutingId() {
    std::string id(16, '\0');
    for (char& c : id) c = static_cast<char>(std::uniform_int_distribution<>(1, 255)(random_));
    return id;
  }

  AsioEventLoop& loop_;
  ZmqDealerOptions options_;
  std::random_device random_;
  Handlers handlers_;
  FrameJoiner joiner_;
  ZmqFrame event_;
  std::unique_ptr<DealerConnection> connection_;
  bool established_ = false;
  std::size_t server_key_ = 0;  // index in options_.curve of the key that is being tried
  TimerPtr reopening_;          // set while the connection is broken and the next one is due
};

}  // namespace

Result<std::unique_ptr<ZmqDealerBus>> ZmqDealerBus::Connect(AsioEventLoop& loop,
                                                            const ZmqDealerOptions& options) {
  auto bus = std::make_unique<DealerBus>(loop, options);
  if (Result<void> opened = bus->Open(); !opened) return Propagate(opened);
  return bus;
}

}  // namespace espalier::io
