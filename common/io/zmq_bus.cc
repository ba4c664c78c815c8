#include "common/io/zmq_bus.h"

#include <fmt/format.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/io/zmq_socket.h"

namespace espalier::io {
namespace {

using namespace std::chrono_literals;

// Messages of one peer that wait for the loop; beyond it TCP holds the peer back.
constexpr int kReceiveHighWaterMark = 256;
// A storm of agents must find room at once: with libzmq's 100 some wait for half a minute.
constexpr int kBacklog = 4096;
constexpr int kConnectTimeoutMs = 5000;
constexpr std::size_t kMaxDroppedPeers = 4096;

void SetLimits(ZmqSocket& socket, int send_high_water_mark, std::int64_t max_message_bytes) {
  socket.Set(ZMQ_IPV6, 1);
  socket.Set(ZMQ_SNDHWM, send_high_water_mark);
  socket.Set(ZMQ_RCVHWM, kReceiveHighWaterMark);
  socket.Set(ZMQ_MAXMSGSIZE, max_message_bytes);
}

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};

class RouterBus : public ZmqRouterBus {
 public:
  explicit RouterBus(AsioEventLoop& loop) : loop_(loop), socket_(loop, ZmqSocket::Type::kRouter) {}

  Result<void> Bind(const ZmqRouterOptions& options) {
    SetLimits(socket_, options.send_high_water_mark, options.max_message_bytes);
    socket_.Set(ZMQ_ROUTER_MANDATORY, 1);
    socket_.Set(ZMQ_BACKLOG, kBacklog);
    return socket_.Bind(options.endpoint);
  }

  std::string endpoint() const override { return socket_.LastEndpoint(); }

  void SetHandlers(Handlers handlers) override {
    handlers_ = std::move(handlers);
    socket_.OnReadable([this] { return TakeMessage(); });
  }

  bool Send(PeerId to, std::string bytes) override {
    ESPALIER_CHECK(!bytes.empty(), "peer={}", to.value());
    const auto peer = routing_ids_.find(to);
    if (peer == routing_ids_.end()) return false;
    const int error = SendTo(peer->second, bytes);
    if (error == EHOSTUNREACH) {
      peers_.erase(peer->second);
      routing_ids_.erase(peer);
      ReportGone(to);
    }
    return error == 0;
  }

  void Disconnect(PeerId peer) override {
    const auto found = routing_ids_.find(peer);
    if (found == routing_ids_.end()) return;
    SendTo(found->second, "");  // goodbye
    peers_[found->second] = kDropped;
    dropped_.push_back(std::move(found->second));
    routing_ids_.erase(found);
    if (dropped_.size() > kMaxDroppedPeers) {
      peers_.erase(dropped_.front());
      dropped_.pop_front();
    }
  }

 private:
  static constexpr PeerId kDropped{0};

  int SendTo(std::string_view routing_id, std::string_view bytes) {
    const std::array<std::string_view, 2> frames{routing_id, bytes};
    return socket_.Send(frames);
  }

  bool TakeMessage() {
    if (!socket_.Receive(routing_id_)) return false;
    bool well_formed = routing_id_.HasMore() && socket_.Receive(payload_);
    while (well_formed && payload_.HasMore()) {
      ZmqFrame surplus;
      if (!socket_.Receive(surplus) || !surplus.HasMore()) well_formed = false;
    }
    if (!well_formed || payload_.bytes().empty()) return true;
    const PeerId from = PeerOf(routing_id_.bytes());
    if (from != kDropped) handlers_.on_message(from, payload_.bytes());
    return true;
  }

  PeerId PeerOf(std::string_view routing_id) {
    if (const auto known = peers_.find(routing_id); known != peers_.end()) return known->second;
    const PeerId id(next_peer_++);
    peers_.emplace(routing_id, id);
    routing_ids_.emplace(id, routing_id);
    return id;
  }

  // Not inside Send: from the loop.
  void ReportGone(PeerId peer) {
    gone_.push_back(peer);
    gone_timer_ = loop_.After(0s, [this] {
      for (const PeerId gone : std::exchange(gone_, {})) {
        if (handlers_.on_peer_gone) handlers_.on_peer_gone(gone);
      }
    });
  }

  AsioEventLoop& loop_;
  ZmqSocket socket_;
  Handlers handlers_;
  ZmqFrame routing_id_;
  ZmqFrame payload_;
  std::unordered_map<std::string, PeerId, StringHash, std::equal_to<>> peers_;  // or kDropped
  std::unordered_map<PeerId, std::string> routing_ids_;
  std::deque<std::string> dropped_;
  std::uint64_t next_peer_ = 1;
  std::vector<PeerId> gone_;
  TimerPtr gone_timer_;
};

// A connection attempt and, where it succeeds, the connection: one DEALER socket and the PAIR
// socket that tells what becomes of it. libzmq does not reconnect it.
class DealerConnection {
 public:
  DealerConnection(AsioEventLoop& loop, const ZmqDealerOptions& options, std::string routing_id)
      : dealer_(loop, ZmqSocket::Type::kDealer), monitor_(loop, ZmqSocket::Type::kPair) {
    SetLimits(dealer_, options.send_high_water_mark, options.max_message_bytes);
    dealer_.Set(ZMQ_RECONNECT_IVL, -1);
    dealer_.Set(ZMQ_CONNECT_TIMEOUT, kConnectTimeoutMs);
    dealer_.Set(ZMQ_ROUTING_ID, routing_id);
    std::string events = "inproc://connection-";
    for (const char c : routing_id) events += fmt::format("{:02x}", static_cast<unsigned char>(c));
    dealer_.Monitor(events,
                    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED);
    const Result<void> joined = monitor_.Connect(events);
    ESPALIER_CHECK(joined, "error={}", joined.error().message);
  }

  // libzmq's I/O thread, which all sockets share, blocks for ever on an event that nobody can hear
  // any more; so no events before the hearer goes.
  ~DealerConnection() { dealer_.StopMonitor(); }

  Result<void> Connect(const std::string& endpoint) { return dealer_.Connect(endpoint); }

  ZmqSocket& dealer() { return dealer_; }
  ZmqSocket& monitor() { return monitor_; }

 private:
  ZmqSocket dealer_;
  ZmqSocket monitor_;
};

class DealerBus : public Bus {
 public:
  DealerBus(AsioEventLoop& loop, const ZmqDealerOptions& options)
      : loop_(loop), options_(options) {}

  Result<void> Open() {
    connection_ = std::make_unique<DealerConnection>(loop_, options_, RandomRoutingId());
    established_ = false;
    return connection_->Connect(options_.endpoint);
  }

  void SetHandlers(Handlers handlers) override {
    handlers_ = std::move(handlers);
    Listen();
  }

  bool Send(PeerId to, std::string bytes) override {
    ESPALIER_CHECK(to == kControllerPeer && !bytes.empty(), "peer={}", to.value());
    if (!IsOpen()) return false;
    const std::array<std::string_view, 1> frames{bytes};
    return connection_->dealer().Send(frames) == 0;
  }

  void Disconnect(PeerId peer) override {
    ESPALIER_CHECK(peer == kControllerPeer, "peer={}", peer.value());
    if (IsOpen()) Reopen();
  }

 private:
  bool IsOpen() const { return reopening_ == nullptr; }

  void Listen() {
    connection_->dealer().OnReadable([this] { return TakeMessage(); });
    connection_->monitor().OnReadable([this] { return TakeEvent(); });
  }

  bool TakeMessage() {
    if (!IsOpen() || !connection_->dealer().Receive(payload_)) return false;
    established_ = true;
    if (payload_.bytes().empty()) {
      Break();  // the controller's goodbye
      return false;
    }
    handlers_.on_message(kControllerPeer, payload_.bytes());
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
    while (TakeMessage()) continue;  // what arrived before the end
    if (IsOpen()) Break();
    return false;
  }

  // The other side ended it, or never answered.
  void Break() {
    const bool was_established = established_;
    Reopen();
    if (was_established && handlers_.on_peer_gone) handlers_.on_peer_gone(kControllerPeer);
  }

  // Closes from the loop, as this may be a callback of the socket.
  void Reopen() {
    reopening_ = loop_.After(0s, [this] {
      connection_.reset();
      const std::chrono::milliseconds pause(std::uniform_int_distribution<>(50, 150)(random_));
      reopening_ = loop_.After(pause, [this] {
        reopening_.reset();
        const Result<void> opened = Open();
        ESPALIER_CHECK(opened, "error={}", opened.error().message);  // it was possible before
        Listen();
      });
    });
  }

  std::string RandomRoutingId() {
    std::string id(16, '\0');
    for (char& c : id) c = static_cast<char>(std::uniform_int_distribution<>(1, 255)(random_));
    return id;
  }

  AsioEventLoop& loop_;
  const ZmqDealerOptions options_;
  std::random_device random_;
  Handlers handlers_;
  ZmqFrame payload_;
  ZmqFrame event_;
  std::unique_ptr<DealerConnection> connection_;
  bool established_ = false;
  TimerPtr reopening_;  // the connection is broken, the next one is due
};

}  // namespace

Result<std::unique_ptr<ZmqRouterBus>> ZmqRouterBus::Bind(AsioEventLoop& loop,
                                                         const ZmqRouterOptions& options) {
  auto bus = std::make_unique<RouterBus>(loop);
  if (Result<void> bound = bus->Bind(options); !bound) return Propagate(bound);
  return bus;
}

Result<std::unique_ptr<Bus>> ConnectZmqDealer(AsioEventLoop& loop,
                                              const ZmqDealerOptions& options) {
  auto bus = std::make_unique<DealerBus>(loop, options);
  if (Result<void> opened = bus->Open(); !opened) return Propagate(opened);
  return bus;
}

}  // namespace espalier::io
