#include <fmt/format.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/io/zap_handler.h"
#include "common/io/zmq_bus.h"
#include "common/io/zmq_frames.h"
#include "common/io/zmq_socket.h"

namespace espalier::io {
namespace {

using namespace std::chrono_literals;

// A storm of agents must find room at once: with libzmq's 100 some wait for half a minute.
constexpr int kBacklog = 4096;
constexpr std::size_t kMaxDroppedPeers = 4096;

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

// What an agent may still send, by its limits (a token bucket that holds one second's).
class Allowance {
 public:
  explicit Allowance(const PeerLimits& limits, TimePoint now)
      : messages_(limits.messages_per_second), bytes_(limits.bytes_per_second), filled_(now) {}

  bool Take(const PeerLimits& limits, TimePoint now, std::size_t bytes) {
    const double seconds = std::chrono::duration<double>(now - filled_).count();
    filled_ = now;
    messages_ =
        std::min(limits.messages_per_second, messages_ + seconds * limits.messages_per_second) - 1;
    // A message that is larger than a second's bytes must be possible: it is owed.
    bytes_ = std::min(limits.bytes_per_second, bytes_ + seconds * limits.bytes_per_second);
    const bool may = (limits.messages_per_second <= 0 || messages_ >= 0) &&
                     (limits.bytes_per_second <= 0 || bytes_ > 0);
    bytes_ -= static_cast<double>(bytes);
    return may;
  }

 private:
  double messages_;
  double bytes_;
  TimePoint filled_;
};

struct Peer {
  std::string routing_id;
  std::string key;   // "" without CURVE
  std::string name;  // that the key is bound to
  std::shared_ptr<Allowance> allowance;
};

class RouterBus : public ZmqRouterBus {
 public:
  RouterBus(AsioEventLoop& loop, const ZmqRouterOptions& options)
      : loop_(loop),
        curve_(options.curve),
        limits_(options.limits),
        socket_(loop, ZmqSocket::Type::kRouter),
        monitor_(loop, ZmqSocket::Type::kPair),
        joiner_(options.max_message_bytes) {
    io::SetLimits(socket_, options.send_high_water_mark);
    socket_.Set(ZMQ_ROUTER_MANDATORY, 1);
    socket_.Set(ZMQ_BACKLOG, kBacklog);
  }
  ~RouterBus() override {
    if (curve_) socket_.StopMonitor();  // before its hearer goes
  }

  Result<void> Bind(const std::string& endpoint) {
    if (curve_) {
      if (Result<void> guarded = GuardWithKeys(); !guarded) return guarded;
    }
    return socket_.Bind(endpoint);
  }

  std::string endpoint() const override { return socket_.LastEndpoint(); }

  void SetHandlers(Handlers handlers) override {
    handlers_ = std::move(handlers);
    socket_.OnReadable([this] { return TakeMessage(); });
    if (curve_) monitor_.OnReadable([this] { return TakeEvent(); });
  }

  void OnRefusal(std::function<void(const PeerRefusal&)> on_refusal) override {
    on_refusal_ = std::move(on_refusal);
  }

  void SetLimits(const PeerLimits& limits) override { limits_ = limits; }

  void RecheckKeys() override {
    if (!curve_) return;
    std::vector<PeerId> lost;
    for (const auto& [id, peer] : peers_) {
      if (curve_->name_of_key(peer.key) != peer.name) lost.push_back(id);
    }
    for (const PeerId id : lost) SendAway(id, PeerRefusal::Cause::kUnknownKey);
  }

  std::optional<std::string> AuthenticatedName(PeerId peer) const override {
    const auto found = peers_.find(peer);
    if (!curve_ || found == peers_.end()) return std::nullopt;
    return found->second.name;
  }

  bool Send(PeerId to, std::string bytes) override {
    ESPALIER_CHECK(!bytes.empty(), "peer={}", to.value());
    const auto peer = peers_.find(to);
    if (peer == peers_.end()) return false;
    const int error = SendInFrames(socket_, peer->second.routing_id, bytes);
    if (error == EHOSTUNREACH) {
      ids_.erase(peer->second.routing_id);
      peers_.erase(peer);
      ReportGone(to);
    }
    return error == 0;
  }

  void Disconnect(PeerId id) override {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    SendInFrames(socket_, found->second.routing_id, "");  // goodbye
    Drop(std::move(found->second.routing_id));
    peers_.erase(found);
  }

 private:
  static constexpr PeerId kDropped{0};

  // Before the socket is bound: nobody connects unasked.
  Result<void> GuardWithKeys() {
    auto zap = ZapHandler::Start(loop_, curve_->name_of_key,
                                 [this](const std::string& address, const std::string&) {
                                   Refused({PeerRefusal::Cause::kUnknownKey, address});
                                 });
    if (!zap) return Propagate(zap);
    zap_ = std::move(*zap);
    socket_.Set(ZMQ_CURVE_SERVER, 1);
    socket_.Set(ZMQ_CURVE_SECRETKEY, curve_->secret_key);
    socket_.Set(ZMQ_ZAP_DOMAIN, std::string_view(kZapDomain));
    const std::string events = fmt::format("inproc://router-{}", static_cast<const void*>(this));
    // libzmq's I/O thread would wait for room in its queue of events while it holds a lock.
    monitor_.Set(ZMQ_RCVHWM, 0);
    socket_.Monitor(events,
                    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL);
    return monitor_.Connect(events);
  }

  bool TakeEvent() {
    if (!monitor_.Receive(event_)) return false;
    while (event_.HasMore() && monitor_.Receive(event_)) continue;
    Refused({PeerRefusal::Cause::kNoHandshake, ""});
    return true;
  }

  void Refused(const PeerRefusal& refusal) {
    if (on_refusal_) on_refusal_(refusal);
  }

  bool TakeMessage() {
    if (!socket_.Receive(routing_id_)) return false;
    if (!routing_id_.HasMore()) return true;
    const FrameJoiner::Message message = joiner_.Receive(socket_);
    if (message.bytes.empty()) return true;
    const PeerId from = PeerOf(routing_id_.bytes(), message.user_id);
    if (from == kDropped) return true;
    Peer& peer = peers_.at(from);
    // A routing id is the peer's own choice; its key is not.
    if (peer.key != message.user_id) return true;
    if (message.too_large) {
      SendAway(from, PeerRefusal::Cause::kTooLarge);
    } else if (!peer.allowance->Take(limits_, loop_.Now(), message.bytes.size())) {
      SendAway(from, PeerRefusal::Cause::kTooMany);
    } else {
      handlers_.on_message(from, message.bytes);
    }
    return true;
  }

  PeerId PeerOf(std::string_view routing_id, std::string_view key) {
    if (const auto known = ids_.find(routing_id); known != ids_.end()) return known->second;
    std::optional<std::string> name = curve_ ? curve_->name_of_key(key) : "";
    if (!name) {  // its key lost its name after it connected
      Drop(std::string(routing_id));
      return kDropped;
    }
    const PeerId id(next_peer_++);
    ids_.emplace(routing_id, id);
    auto allowance = std::make_shared<Allowance>(limits_, loop_.Now());
    if (curve_) allowance = allowances_.try_emplace(*name, allowance).first->second;
    peers_.emplace(id, Peer{std::string(routing_id), std::string(key), std::move(*name),
                            std::move(allowance)});
    return id;
  }

  void Drop(std::string routing_id) {
    ids_[routing_id] = kDropped;
    dropped_.push_back(std::move(routing_id));
    if (dropped_.size() <= kMaxDroppedPeers) return;
    ids_.erase(dropped_.front());
    dropped_.pop_front();
  }

  void SendAway(PeerId id, PeerRefusal::Cause cause) {
    const PeerRefusal refusal{cause, peers_.at(id).name};
    Disconnect(id);
    ReportGone(id);
    Refused(refusal);
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
  const std::optional<CurveServer> curve_;
  PeerLimits limits_;
  std::unique_ptr<ZapHandler> zap_;
  ZmqSocket socket_;
  ZmqSocket monitor_;
  Handlers handlers_;
  std::function<void(const PeerRefusal&)> on_refusal_;
  ZmqFrame routing_id_;
  ZmqFrame event_;
  FrameJoiner joiner_;
  StringMap<PeerId> ids_;  // by routing id; or kDropped
  std::unordered_map<PeerId, Peer> peers_;
  StringMap<std::shared_ptr<Allowance>> allowances_;  // of names, over their connections
  std::deque<std::string> dropped_;
  std::uint64_t next_peer_ = 1;
  std::vector<PeerId> gone_;
  TimerPtr gone_timer_;
};

}  // namespace

std::string PeerRefusalText(PeerRefusal::Cause cause) {
  switch (cause) {
    case PeerRefusal::Cause::kUnknownKey:
      return "its key is unknown or revoked";
    case PeerRefusal::Cause::kNoHandshake:
      return "no handshake: no keys, or those of another controller";
    case PeerRefusal::Cause::kTooLarge:
      return "a message is too large";
    case PeerRefusal::Cause::kTooMany:
      return "it sends too much";
  }
  return "?";
}

Result<std::unique_ptr<ZmqRouterBus>> ZmqRouterBus::Bind(AsioEventLoop& loop,
                                                         const ZmqRouterOptions& options) {
  auto bus = std::make_unique<RouterBus>(loop, options);
  if (Result<void> bound = bus->Bind(options.endpoint); !bound) return Propagate(bound);
  return bus;
}

}  // namespace espalier::io
