#include <fmt/format.h>
#include <sys/resource.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/enum_names.h"
#include "common/bus/zap_handler.h"
#include "common/bus/zmq_bus.h"
#include "common/bus/zmq_connections.h"
#include "common/bus/zmq_frames.h"
#include "common/bus/zmq_socket.h"

namespace espalier::io {
namespace {

using namespace std::chrono_literals;

// A storm of agents must find room at once: with libzmq's 100 some wait for half a minute.
constexpr int kBacklog = 4096;
constexpr std::size_t kMaxDroppedPeers = 4096;
// An agent has one connection, and for a moment two: the one that broke and the next.
constexpr std::size_t kMaxPeersOfName = 4;
// Without keys nobody has a name, so all peers together are bounded.
constexpr std::size_t kMaxPeers = 32'768;
// An agent whose connection breaks comes back at once, a few times.
constexpr double kMaxAtOnce = 8;
constexpr double kNewConnectionsPerSecond = 1;
// Peers to which nobody has had anything to say for so long are of no use: an agent is sent a
// heartbeat once a minute at the least.
constexpr Duration kUnanswered = 3min;
constexpr Duration kUnansweredInterval = 10s;
// What libzmq may hand over of a connection after its end, twice over.
constexpr int kMaxLeftovers = 2 * kReceiveHighWaterMark;
// Descriptors that are not for connections of agents: the store, HTTP, logs.
constexpr std::size_t kOtherDescriptors = 512;

// As many connections as there can be descriptors for them, so that accepting never fails.
std::size_t MostConnections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMaxPeers;
  const auto most = static_cast<std::size_t>(limit.rlim_cur);
  return most > 2 * kOtherDescriptors ? most - kOtherDescriptors : most / 2;
}

// One thread decrypts for some thousand agents; the loop and others want cores, too.
int ThreadsFor(unsigned cores) { return static_cast<int>(std::clamp(cores / 2, 1U, 4U)); }

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

  bool Take(const PeerLimits& limits, TimePoint now, std::size_t messages, std::size_t bytes) {
    const double seconds = SecondsOf(now - filled_);
    filled_ = now;
    messages_ =
        std::min(limits.messages_per_second, messages_ + seconds * limits.messages_per_second) -
        static_cast<double>(messages);
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

// How often an agent may connect: kMaxAtOnce at one moment, then one a second.
class ConnectAllowance {
 public:
  explicit ConnectAllowance(TimePoint now) : filled_(now) {}

  bool Take(TimePoint now) {
    const double seconds = SecondsOf(now - filled_);
    filled_ = now;
    left_ = std::min(kMaxAtOnce, left_ + seconds * kNewConnectionsPerSecond);
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double left_ = kMaxAtOnce;
  TimePoint filled_;
};

// What an agent's connections have in common.
struct Account {
  explicit Account(const PeerLimits& limits, TimePoint now)
      : allowance(limits, now), connects(now) {}

  Allowance allowance;
  ConnectAllowance connects;
  std::deque<PeerId> peers;  // oldest first
};

struct Peer {
  std::string routing_id;
  std::string key;   // "" without CURVE
  std::string name;  // that the key is bound to
  std::shared_ptr<Account> account;
  ZmqConnections::Id connection;  // by which its first message came; without a cookie: unknown
  TimePoint last_answer;          // when something was sent to it; at first when it came
};

// A routing id whose connection was ended, and what still came under it: what libzmq had already
// received, or another connection that uses the same.
struct Dropped {
  int leftovers = 0;
};

class RouterBus : public ZmqRouterBus {
 public:
  RouterBus(AsioEventLoop& loop, const ZmqRouterOptions& options, ZmqSocket socket,
            ZmqSocket monitor)
      : loop_(loop),
        curve_(options.curve),
        limits_(options.limits),
        socket_(std::move(socket)),
        monitor_(std::move(monitor)),
        connections_({.connections = MostConnections(),
                      .max_partial_message_bytes =
                          2 * static_cast<std::uint64_t>(options.max_message_bytes) + kSlackBytes,
                      .first_message = options.first_message_timeout}),
        joiner_(options.max_message_bytes) {
    io::SetLimits(socket_, options.send_high_water_mark);
    BreakSilentConnections(socket_, options.silence_limit);
    socket_.Set(ZMQ_ROUTER_MANDATORY, 1);
    socket_.Set(ZMQ_BACKLOG, kBacklog);
  }
  ~RouterBus() override {
    socket_.StopMonitor();  // before its hearer goes
  }

  Result<void> Bind(const std::string& endpoint) {
    if (curve_) {
      if (Result<void> guarded = GuardWithKeys(); !guarded) return guarded;
    }
    if (Result<void> watched = WatchConnections(); !watched) return watched;
    return socket_.Bind(endpoint);
  }

  std::string endpoint() const override { return socket_.LastEndpoint(); }

  void SetHandlers(Handlers handlers) override {
    handlers_ = std::move(handlers);
    socket_.OnReadable([this] { return TakeMessage(); });
    monitor_.OnReadable([this] { return TakeEvent(); });
    Sweep();
    EndUnanswered();
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
    peer->second.last_answer = loop_.Now();
    const int error = SendInFrames(socket_, peer->second.routing_id, bytes);
    if (error == EHOSTUNREACH) {
      ids_.erase(peer->second.routing_id);
      Forget(peer);
      ReportGone(to);
    }
    return error == 0;
  }

  void Disconnect(PeerId id) override {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    const Peer& peer = found->second;
    SendInFrames(socket_, peer.routing_id, "");  // goodbye
    connections_.EndSoon(peer.connection);
    Drop(peer.routing_id);
    Forget(found);
  }

 private:
  static constexpr PeerId kDropped{0};
  // What encryption may add to a message, and what the socket's buffers hold.
  static constexpr std::uint64_t kSlackBytes = 1 << 20;

  using Peers = std::unordered_map<PeerId, Peer>;

  // Before the socket is bound: nobody connects unasked.
  Result<void> GuardWithKeys() {
    auto zap = ZapHandler::Start(
        loop_, curve_->name_of_key, [this](const std::string& name) { return Admit(name); },
        [this](const std::string& address, const std::string&) {
          Refused({PeerRefusal::Cause::kUnknownKey, address});
        });
    if (!zap) return Propagate(zap);
    zap_ = std::move(*zap);
    socket_.Set(ZMQ_CURVE_SERVER, 1);
    socket_.Set(ZMQ_CURVE_SECRETKEY, curve_->secret_key);
    socket_.Set(ZMQ_ZAP_DOMAIN, std::string_view(kZapDomain));
    return {};
  }

  // Before the socket is bound, so that no connection is missed.
  Result<void> WatchConnections() {
    std::random_device random;  // a name that no socket has had: libzmq gives names back late
    const std::string events = fmt::format("inproc://router-{:08x}{:08x}", random(), random());
    // libzmq's I/O thread would wait for room in its queue of events while it holds a lock.
    monitor_.Set(ZMQ_RCVHWM, 0);
    constexpr int kConnectionEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                                      ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                      ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    if (Result<void> told = socket_.Monitor(events, kConnectionEvents); !told) return told;
    return monitor_.Connect(events);
  }

  bool TakeEvent() {
    if (!monitor_.Receive(event_)) return false;
    std::uint16_t event = 0;
    std::uint32_t value = 0;  // the descriptor, where a connection began or ended
    ESPALIER_CHECK(event_.bytes().size() >= sizeof event + sizeof value);
    std::memcpy(&event, event_.bytes().data(), sizeof event);
    std::memcpy(&value, event_.bytes().data() + sizeof event, sizeof value);
    while (event_.HasMore() && monitor_.Receive(event_)) continue;
    if (event == ZMQ_EVENT_ACCEPTED) {
      connections_.HandleAccepted(static_cast<int>(value), loop_.Now());
    } else if (event == ZMQ_EVENT_DISCONNECTED) {
      connections_.HandleClosed(static_cast<int>(value));
    } else if (curve_) {
      Refused({PeerRefusal::Cause::kNoHandshake, ""});
    }
    return true;
  }

  void Sweep() {
    for (const ZmqConnections::Id& endless : connections_.Sweep(loop_.Now())) {
      const auto peer = std::ranges::find_if(
          peers_, [&](const auto& entry) { return entry.second.connection == endless; });
      if (peer != peers_.end()) {
        SendAway(peer->first, PeerRefusal::Cause::kTooLarge);
      } else {
        Refused({PeerRefusal::Cause::kTooLarge, ""});
      }
    }
    sweep_timer_ = loop_.After(connections_.SweepInterval(), [this] { Sweep(); });
  }

  void EndUnanswered() {
    const TimePoint now = loop_.Now();
    std::vector<PeerId> unanswered;
    for (const auto& [id, peer] : peers_) {
      if (now - peer.last_answer > kUnanswered) unanswered.push_back(id);
    }
    for (const PeerId id : unanswered) LetGo(id);
    unanswered_timer_ = loop_.After(kUnansweredInterval, [this] { EndUnanswered(); });
  }

  // Of an agent that has just proved its key.
  bool Admit(const std::string& name) {
    if (AccountOf(name)->connects.Take(loop_.Now())) return true;
    Refused({PeerRefusal::Cause::kTooManyConnections, name});
    return false;
  }

  void Refused(const PeerRefusal& refusal) {
    if (on_refusal_) on_refusal_(refusal);
  }

  bool TakeMessage() {
    if (!socket_.Receive(routing_id_)) return false;
    FrameJoiner::Message message;
    if (routing_id_.HasMore()) message = joiner_.Receive(socket_);
    const auto found = PeerOf(routing_id_);
    if (found == peers_.end()) return true;
    const auto& [from, peer] = *found;
    connections_.Hear(peer.connection);
    // All that comes is counted before anybody looks at what it is, and empty frames as messages.
    const bool may = peer.account->allowance.Take(limits_, loop_.Now(), 1 + message.needless_frames,
                                                  message.bytes.size());
    if (message.too_large) {
      SendAway(from, PeerRefusal::Cause::kTooLarge);
    } else if (!may) {
      SendAway(from, PeerRefusal::Cause::kTooMany);
    } else if (!message.bytes.empty()) {
      handlers_.on_message(from, message.bytes);
    }
    return true;
  }

  // Whose message has this first frame; end() for one that is nobody's.
  Peers::iterator PeerOf(const ZmqFrame& first) {
    const auto known = ids_.find(first.bytes());
    if (known == ids_.end()) return Meet(first);
    if (known->second == kDropped) {
      Dropped& dropped = dropped_.at(known->first);
      if (++dropped.leftovers % kMaxLeftovers == 0) connections_.End(ConnectionOf(first));
      return peers_.end();
    }
    const auto found = peers_.find(known->second);
    // A routing id is the peer's own choice; its key is not.
    if (found->second.key != first.UserId()) {
      connections_.End(ConnectionOf(first));
      return peers_.end();
    }
    return found;
  }

  Peers::iterator Meet(const ZmqFrame& first) {
    const std::string_view key = first.UserId();
    std::optional<std::string> name = curve_ ? curve_->name_of_key(key) : "";
    // Its key lost its name after it connected, or nobody has a name and there are too many.
    if (!name || (!curve_ && peers_.size() >= kMaxPeers)) {
      Refused({name ? PeerRefusal::Cause::kTooManyConnections : PeerRefusal::Cause::kUnknownKey,
               std::string(first.PeerAddress())});
      connections_.End(ConnectionOf(first));
      Drop(std::string(first.bytes()));
      return peers_.end();
    }
    const PeerId id(next_peer_++);
    ids_.emplace(first.bytes(), id);
    const ZmqConnections::Id connection = ConnectionOf(first);
    std::shared_ptr<Account> account =
        curve_ ? AccountOf(*name) : std::make_shared<Account>(limits_, loop_.Now());
    if (account->peers.size() >= kMaxPeersOfName) LetGo(account->peers.front());
    // One connection is one peer's: if an earlier one seems to have it, that one's had ended, and
    // its descriptor was given to this, before its first message was read.
    for (const PeerId earlier : account->peers) {
      Peer& other = peers_.at(earlier);
      if (other.connection == connection) other.connection = {};
    }
    account->peers.push_back(id);
    return peers_
        .emplace(id, Peer{.routing_id = std::string(first.bytes()),
                          .key = std::string(key),
                          .name = std::move(*name),
                          .account = std::move(account),
                          .connection = connection,
                          .last_answer = loop_.Now()})
        .first;
  }

  std::shared_ptr<Account> AccountOf(const std::string& name) {
    std::shared_ptr<Account>& account = accounts_[name];
    if (!account) account = std::make_shared<Account>(limits_, loop_.Now());
    return account;
  }

  ZmqConnections::Id ConnectionOf(const ZmqFrame& frame) {
    while (TakeEvent()) continue;  // what has begun and ended meanwhile
    return connections_.Find(frame.SourceDescriptor(), frame.PeerAddress());
  }

  void Drop(const std::string& routing_id) {
    ids_[routing_id] = kDropped;
    if (!dropped_.try_emplace(routing_id).second) return;
    dropped_order_.push_back(routing_id);
    if (dropped_order_.size() <= kMaxDroppedPeers) return;
    ids_.erase(dropped_order_.front());
    dropped_.erase(dropped_order_.front());
    dropped_order_.pop_front();
  }

  void Forget(Peers::iterator peer) {
    std::erase(peer->second.account->peers, peer->first);
    peers_.erase(peer);
  }

  void LetGo(PeerId id) {
    Disconnect(id);
    ReportGone(id);
  }

  void SendAway(PeerId id, PeerRefusal::Cause cause) {
    const PeerRefusal refusal{cause, peers_.at(id).name};
    connections_.End(peers_.at(id).connection);  // no goodbye for who broke the rules
    LetGo(id);
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
  ZmqConnections connections_;
  FrameJoiner joiner_;
  StringMap<PeerId> ids_;  // by routing id; or kDropped
  Peers peers_;
  StringMap<std::shared_ptr<Account>> accounts_;  // by name
  StringMap<Dropped> dropped_;                    // by routing id, the latest
  std::deque<std::string> dropped_order_;
  TimerPtr sweep_timer_;
  TimerPtr unanswered_timer_;
  std::uint64_t next_peer_ = 1;
  std::vector<PeerId> gone_;
  TimerPtr gone_timer_;
};

}  // namespace

std::string PeerRefusalText(PeerRefusal::Cause cause) {
  static constexpr EnumNames<PeerRefusal::Cause> kPeerRefusalTexts({
      {PeerRefusal::Cause::kUnknownKey, "its key is unknown or revoked"},
      {PeerRefusal::Cause::kNoHandshake, "no handshake: no keys, or those of another controller"},
      {PeerRefusal::Cause::kTooLarge, "a message is too large"},
      {PeerRefusal::Cause::kTooMany, "it sends too much"},
      {PeerRefusal::Cause::kTooManyConnections,
       "it connects too often, or has too many connections"},
  });
  return std::string(kPeerRefusalTexts.NameOf(cause));
}

Result<std::unique_ptr<ZmqRouterBus>> ZmqRouterBus::Bind(AsioEventLoop& loop,
                                                         const ZmqRouterOptions& options) {
  SetZmqThreads(loop, ThreadsFor(std::thread::hardware_concurrency()));
  Result<ZmqSocket> socket = ZmqSocket::Open(loop, ZmqSocket::Type::kRouter);
  if (!socket) return Propagate(socket);
  Result<ZmqSocket> monitor = ZmqSocket::Open(loop, ZmqSocket::Type::kPair);
  if (!monitor) return Propagate(monitor);
  auto bus = std::make_unique<RouterBus>(loop, options, std::move(*socket), std::move(*monitor));
  if (Result<void> bound = bus->Bind(options.endpoint); !bound) return Propagate(bound);
  return bus;
}

}  // namespace espalier::io
