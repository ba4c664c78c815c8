#include "common/bus/zmq_router_bus.h"

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
#include "common/bus/zmq_connections.h"
#include "common/bus/zmq_frames.h"
#include "common/bus/zmq_socket.h"

namespace espalier::io {
namespace {

using namespace std::chrono_literals;

// Large enough for all agents to connect at once: with libzmq's 100 some wait for half a minute.
constexpr int kBacklog = 4096;
constexpr std::size_t kMaxDroppedPeers = 4096;
// An agent has one connection, and briefly two: the broken one and the next.
constexpr std::size_t kMaxPeersOfName = 4;
// Without keys peers have no names, so the limit applies to all peers together.
constexpr std::size_t kMaxPeers = 32'768;
// An agent whose connection breaks reconnects at once, a few times.
constexpr double kMaxAtOnce = 8;
constexpr double kNewConnectionsPerSecond = 1;
// Peers to which nothing was sent for this long are disconnected: an agent gets a
// heartbeat at least once a minute.
constexpr Duration kUnanswered = 3min;
constexpr Duration kUnansweredInterval = 10s;
// Twice the number of messages that libzmq may deliver of a connection after its end.
constexpr int kMaxLeftovers = 2 * kReceiveHighWaterMark;
// Descriptors reserved for other uses than agents' connections: the store, HTTP, logs.
constexpr std::size_t kOtherDescriptors = 512;

// The number of connections for which there are descriptors, so that accepting never fails.
std::size_t MostConnections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMaxPeers;
  const auto most = static_cast<std::size_t>(limit.rlim_cur);
  return most > 2 * kOtherDescriptors ? most - kOtherDescriptors : most / 2;
}

// One thread decrypts for some thousand agents; the loop and other programs need cores, too.
int ThreadsFor(unsigned cores) { return static_cast<int>(std::clamp(cores / 2, 1U, 4U)); }

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

// What an agent may still send by its limits: a token bucket that holds one second's worth.
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
    // A message larger than one second's bytes is allowed and overdraws the bucket.
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

// How often an agent may connect: kMaxAtOnce at once, then one per second.
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

// The state that an agent's connections share.
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
  std::string name;  // the name that the key is bound to
  std::shared_ptr<Account> account;
  ZmqConnections::Id connection;  // on which its first message arrived; without a cookie: unknown
  TimePoint
      last_answer;  // when something was last sent to it; initially the time of its first message
};

// A routing id whose connection was ended, and the messages that still arrived under it: libzmq had
// received them before, or another connection uses the same id.
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
    socket_.StopMonitor();  // before its receiver is closed
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
  // An allowance for what encryption adds to a message and what the socket's buffers hold.
  static constexpr std::uint64_t kSlackBytes = 1 << 20;

  using Peers = std::unordered_map<PeerId, Peer>;

  // Called before the socket is bound, so that no peer connects without authentication.
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

  // Called before the socket is bound, so that no connection is missed.
  Result<void> WatchConnections() {
    std::random_device random;  // for a name that is not in use: libzmq frees names late
    const std::string events = fmt::format("inproc://router-{:08x}{:08x}", random(), random());
    // No limit: libzmq's I/O thread would wait for room in the queue while it holds a lock.
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
    std::uint32_t value = 0;  // the descriptor, if a connection began or ended
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

  // Decides on a connection of an agent that has just proved its key.
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
    // Counts everything that arrives before its contents are examined; needless frames count as
    // messages.
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

  // The peer that sent a message with this first frame; end() if there is none.
  Peers::iterator PeerOf(const ZmqFrame& first) {
    const auto known = ids_.find(first.bytes());
    if (known == ids_.end()) return Meet(first);
    if (known->second == kDropped) {
      Dropped& dropped = dropped_.at(known->first);
      if (++dropped.leftovers % kMaxLeftovers == 0) connections_.End(ConnectionOf(first));
      return peers_.end();
    }
    const auto found = peers_.find(known->second);
    // A peer chooses its routing id, but not its key.
    if (found->second.key != first.UserId()) {
      connections_.End(ConnectionOf(first));
      return peers_.end();
    }
    return found;
  }

  Peers::iterator Meet(const ZmqFrame& first) {
    const std::string_view key = first.UserId();
    std::optional<std::string> name = curve_ ? curve_->name_of_key(key) : "";
    // The key lost its name after the peer connected, or there are no names and too many peers.
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
    // A connection belongs to one peer. If an earlier peer seems to have it, its own connection had
    // ended, and this one got its descriptor, before the earlier peer's first message was read.
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
    while (TakeEvent()) continue;  // connections that began or ended meanwhile
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
    connections_.End(peers_.at(id).connection);  // a peer that broke the rules gets no goodbye
    LetGo(id);
    Refused(refusal);
  }

  // Reports in a later turn of the loop, not inside Send.
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
      {PeerRefusal::Cause::kNoHandshake,
       "there was no handshake: it has no keys, or those of another controller"},
      {PeerRefusal::Cause::kTooLarge, "a message is too large"},
      {PeerRefusal::Cause::kTooMany, "it sends more than its limits allow"},
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
