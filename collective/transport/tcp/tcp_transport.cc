#include "collective/transport/tcp/tcp_transport.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "collective/transport/rendezvous/connection_acceptor.h"
#include "collective/transport/rendezvous/handshake.h"
#include "collective/transport/rendezvous/rendezvous.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "collective/transport/tcp/late_rank.h"
#include "collective/transport/tcp/tcp_connection.h"
#include "common/base/check.h"

namespace espalier::transport {
namespace {

using std::chrono::steady_clock;

constexpr int kMaxSlots = 64;
constexpr std::uint32_t kMagic = 0x45535448;
constexpr std::uint32_t kVersion = 4;
// A rank that waits this long tells its peers in which call it is, and later for whom it waits.
constexpr std::chrono::milliseconds kNotifyAfter{100};
constexpr std::chrono::milliseconds kNameAfter{250};
constexpr std::chrono::milliseconds kNameEvery{10};
// How long a peer that cannot be reached is tried again, and how often.
constexpr std::chrono::milliseconds kStalePatience{1'000};
constexpr std::chrono::milliseconds kStalePause{20};
constexpr std::chrono::microseconds kYieldFor{50};
// The direction of messages on a connection, seen from this rank.
enum class Direction : std::uint8_t { kBoth, kOut, kIn };

class TcpTransport : public Transport {
 public:
  TcpTransport(RendezvousStore& store, std::string name, int rank, int size, TcpOptions options)
      : options_(std::move(options)),
        rendezvous_(store, std::move(name), rank, size,
                    {.medium = "tcp",
                     .magic = kMagic,
                     .version = kVersion,
                     .form = options_.planned ? 1U : 0U,
                     .slots = options_.slots,
                     .slot_bytes = options_.slot_bytes},
                    options_.members),
        pool_(options_.slot_bytes, options_.memory) {}

  ~TcpTransport() override;

  Result<void> Start() {
    const auto address = IpAddress::Parse(options_.address);
    if (!address) return tl::unexpected<Error>(address.error());
    auto allowed = options_.members.CheckMeetsAt(*address);
    if (!allowed) return allowed;
    if (options_.listener == nullptr) {
      auto listener = ListenOn(options_.address, 0);
      if (!listener) return Propagate(listener);
      options_.listener = std::move(*listener);
    }
    acceptors_.emplace_back(options_.listener, options_.members.key);
    for (const auto& listener : options_.more_listeners) {
      acceptors_.emplace_back(listener, options_.members.key);
    }
    const auto port = LocalPort(options_.listener->get());
    if (!port) return tl::unexpected<Error>(port.error());
    return rendezvous_.Publish(*address, *port, options_.deadline);
  }

  int rank() const override { return rendezvous_.rank(); }
  int size() const override { return rendezvous_.size(); }
  std::size_t slot_bytes() const override { return options_.slot_bytes; }
  std::size_t message_bytes() const override {
    return std::min(options_.message_bytes, options_.slot_bytes);
  }
  int slots() const override { return options_.slots; }

  void Enter(const MessageTag& call, const CallCheck& check) override {
    call_ = call;
    call_check_ = check;
    notified_.clear();
    named_.reset();
    met_.reset();
    entered_ = steady_clock::now();
    notify_from_ = entered_ + kNotifyAfter;
  }
  Result<void> Connect(std::span<const Endpoint> endpoints, Deadline deadline) override;
  Outbox& outbox(Endpoint endpoint) override {
    return Find({endpoint, options_.planned ? Direction::kOut : Direction::kBoth}).sender();
  }
  Inbox& inbox(Endpoint endpoint) override {
    return Find({endpoint, options_.planned ? Direction::kIn : Direction::kBoth}).receiver();
  }
  Result<void> Wait(Deadline deadline) override;
  Result<bool> TryWait(std::chrono::microseconds patience) override;
  Result<void> Flush(Deadline deadline) override;
  Result<void> Check() override;
  bool HasLost(int peer) override {
    return std::ranges::any_of(connections_, [peer](const auto& entry) {
      return entry.first.endpoint.peer == peer && entry.second->HasHungUp();
    });
  }
  void Abort(const Error& cause) override {
    for (auto& [key, connection] : connections_) connection->sender().SendAbort(cause.message);
  }

 private:
  struct Key {
    Endpoint endpoint;
    Direction direction = Direction::kBoth;
    auto operator<=>(const Key&) const = default;
  };

  bool Dials(const Key& key) const;
  Result<void> StartHandshake(const Key& key, Deadline deadline);
  Result<void> TryHandshake(const Key& key, Deadline deadline);
  Result<void> AwaitPeers(std::span<const Key> keys, Deadline deadline);
  void AwaitActivity(Deadline deadline);
  Result<void> AdvanceHandshakes();
  bool IsExpected(const Hello& hello) const;
  Result<void> CheckWait(int peer);
  Result<void> Move();
  Result<void> CheckConnections();
  Result<void> CheckNotice(TcpConnection& connection, int peer);
  void NotifyPeers();
  std::optional<int> FindLateRank() const;
  Error TimedOut() const;
  bool Poll(int milliseconds);
  bool RanksShareCores() const;

  TcpConnection& Find(const Key& key) {
    const auto found = connections_.find(key);
    ESPALIER_CHECK(found != connections_.end(), "peer={} channel={}", key.endpoint.peer,
                   key.endpoint.channel);
    return *found->second;
  }
  void Add(const Key& key, UniqueFd socket) {
    auto connection = std::make_unique<TcpConnection>(std::move(socket), key.endpoint.peer,
                                                      options_.slots, pool_, token_);
    if (options_.observer != nullptr && key.direction != Direction::kIn) {
      const auto ends = EndsOf(connection->socket());
      if (ends) connection->sender().Observe(options_.observer->Watch(*ends));
    }
    connections_.emplace(key, std::move(connection));
  }

  TcpOptions options_;
  Rendezvous rendezvous_;
  std::list<ConnectionAcceptor> acceptors_;  // one for each listener
  SlotPool pool_;
  ZeroCopySendToken token_;
  std::map<Key, std::unique_ptr<TcpConnection>> connections_;
  std::map<Key, HandshakeClient> handshakes_;  // handshakes that this rank has started
  std::vector<pollfd> polled_;
  std::vector<TcpConnection*> ready_;  // the connections in polled_
  MessageTag call_ = {};
  CallCheck call_check_;
  std::map<int, std::optional<int>> notified_;  // by peer: the rank that it was told of last
  std::optional<int> named_;                    // the last result of FindLateRank
  std::optional<int> met_;                      // the peer for whose connection Connect waits
  steady_clock::time_point entered_;
  steady_clock::time_point notify_from_;
};

// Planned connections may be opened again from the same ports. So a connection that is empty, or
// whose path is dead, is reset instead of closed, which leaves no TIME_WAIT state.
TcpTransport::~TcpTransport() {
  for (const auto& [key, connection] : connections_) {
    if (key.direction != Direction::kOut) continue;
    const int socket = connection->socket();
    int unsent = 0;
    const bool is_empty = ::ioctl(socket, SIOCOUTQ, &unsent) == 0 && unsent == 0;
    if (!is_empty && !IsStuck(socket)) continue;
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
}

bool TcpTransport::Dials(const Key& key) const {
  return key.direction == Direction::kBoth ? key.endpoint.peer < rank()
                                           : key.direction == Direction::kOut;
}

Result<void> TcpTransport::Connect(std::span<const Endpoint> endpoints, Deadline deadline) {
  std::vector<Key> keys;
  for (const Endpoint& endpoint : endpoints) {
    auto checked = rendezvous_.CheckEndpoint(endpoint);
    if (!checked) return checked;
    if (!options_.planned) {
      keys.push_back({endpoint, Direction::kBoth});
      continue;
    }
    if (options_.planned->sends.contains(endpoint)) keys.push_back({endpoint, Direction::kOut});
    if (options_.planned->receives.contains(endpoint)) keys.push_back({endpoint, Direction::kIn});
  }
  // The listener's backlog takes connections before they are accepted, so no order can deadlock.
  for (const Key& key : keys) {
    if (!Dials(key) || connections_.contains(key) || handshakes_.contains(key)) continue;
    auto reached = StartHandshake(key, deadline);
    if (!reached) return rendezvous_.NameMissing(reached, deadline);
  }
  auto met = rendezvous_.NameMissing(AwaitPeers(keys, deadline), deadline);
  met_.reset();
  token_.is_kept = RanksShareCores();
  return met;
}

bool TcpTransport::RanksShareCores() const {
  std::set<int> ranks{rank()};
  for (const auto& [key, connection] : connections_) {
    if (IsWithinHost(connection->socket())) ranks.insert(key.endpoint.peer);
  }
  const long cores = options_.cores > 0 ? options_.cores : ::sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<long>(ranks.size()) > cores;
}

Result<void> TcpTransport::StartHandshake(const Key& key, Deadline deadline) {
  // A rank whose group forms again may be known by the place of its last attempt for a moment.
  const Deadline end = std::min(deadline, steady_clock::now() + kStalePatience);
  auto started = TryHandshake(key, deadline);
  while (!started && started.error().code == ErrorCode::kUnavailable && steady_clock::now() < end) {
    if (auto well = CheckWait(key.endpoint.peer); !well) return well;
    std::this_thread::sleep_for(kStalePause);
    started = TryHandshake(key, deadline);
  }
  return started;
}

Result<void> TcpTransport::TryHandshake(const Key& key, Deadline deadline) {
  const Endpoint endpoint = key.endpoint;
  const auto place =
      rendezvous_.FindPeer(endpoint.peer, deadline, [&] { return CheckWait(endpoint.peer); });
  if (!place) return FailAt(endpoint, place.error());
  const bool is_planned = key.direction == Direction::kOut;
  const auto plan = is_planned ? options_.planned->sends.at(endpoint) : PlannedConnections::Send{};
  const IpAddress destination = plan.destination.value_or(place->address);
  auto allowed = options_.members.CheckMeetsAt(destination);
  if (!allowed) return FailAt(endpoint, allowed.error());
  const auto to = ParseAddress(destination.ToString(), place->port);
  const auto from =
      ParseAddress(plan.source ? plan.source->ToString() : options_.address, plan.port);
  if (!to || !from) return FailAt(endpoint, to ? from.error() : to.error());
  auto socket = Dial(*from, *to, deadline, [&] { return CheckWait(endpoint.peer); });
  if (!socket) return FailAt(endpoint, socket.error());
  handshakes_.insert_or_assign(
      key, HandshakeClient(std::move(*socket), rendezvous_.HelloTo(endpoint, place->group),
                           options_.members.key));
  return {};
}

bool TcpTransport::IsExpected(const Hello& hello) const {
  const Key key = {{hello.from, hello.channel},
                   options_.planned ? Direction::kIn : Direction::kBoth};
  return rendezvous_.IsExpected(hello) && !Dials(key);
}

Result<void> TcpTransport::AwaitPeers(std::span<const Key> keys, Deadline deadline) {
  while (true) {
    auto served = AdvanceHandshakes();
    if (!served) return served;
    const auto missing = std::find_if(keys.begin(), keys.end(),
                                      [&](const Key& key) { return !connections_.contains(key); });
    if (missing == keys.end()) return {};
    auto well = CheckWait(missing->endpoint.peer);
    if (!well) return well;
    if (steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("rank {} did not connect in time (channel {}) to {}, where this rank "
                              "listens",
                              missing->endpoint.peer, missing->endpoint.channel, options_.address));
    }
    AwaitActivity(deadline);
  }
}

// Waits for an event on a handshake, for at most 50 ms.
void TcpTransport::AwaitActivity(Deadline deadline) {
  constexpr std::chrono::milliseconds kNap{50};
  polled_.clear();
  for (const ConnectionAcceptor& acceptor : acceptors_) acceptor.AddTo(polled_);
  for (const auto& [key, call] : handshakes_) polled_.push_back({call.socket(), POLLIN, 0});
  ::poll(polled_.data(), polled_.size(),
         MillisecondsUntil(std::min(deadline, steady_clock::now() + kNap)));
}

// Advances the handshakes of other ranks and those of this rank.
Result<void> TcpTransport::AdvanceHandshakes() {
  for (ConnectionAcceptor& acceptor : acceptors_) {
    acceptor.Serve(
        [this](const Hello& hello) { return IsExpected(hello); },
        [this](const Hello& hello, UniqueFd socket) {
          Add({{hello.from, hello.channel}, options_.planned ? Direction::kIn : Direction::kBoth},
              std::move(socket));
        });
  }
  for (auto call = handshakes_.begin(); call != handshakes_.end();) {
    const Progress progress = call->second.Advance();
    if (progress == Progress::kWrongKey || progress == Progress::kHungUp) {
      return FailAt(call->first.endpoint, HandshakeError(progress));
    }
    if (progress == Progress::kDone) Add(call->first, call->second.TakeSocket());
    call = progress == Progress::kDone ? handshakes_.erase(call) : std::next(call);
  }
  return {};
}

// Checks during a wait for a peer whether it has aborted or gone.
Result<void> TcpTransport::CheckWait(int peer) {
  met_ = peer;
  auto moved = Move();
  if (!moved) return moved;
  NotifyPeers();
  for (const auto& [key, connection] : connections_) {
    if (key.endpoint.peer != peer) continue;
    if (auto ending = connection->Ending()) {
      return Fail(ErrorCode::kUnavailable, std::move(*ending));
    }
  }
  return options_.check ? options_.check() : Result<void>();
}

Result<void> TcpTransport::Check() {
  auto moved = Move();
  if (!moved) return moved;
  for (const auto& [key, connection] : connections_) {
    if (auto ending = connection->Ending()) {
      return Fail(ErrorCode::kUnavailable, std::move(*ending));
    }
  }
  return {};
}

Result<void> TcpTransport::CheckConnections() {
  for (const auto& [key, connection] : connections_) {
    if (connection->receiver().notice()) {
      auto right = CheckNotice(*connection, key.endpoint.peer);
      if (!right) return right;
    }
    if (auto failure = connection->Failure()) {
      return Fail(ErrorCode::kUnavailable, std::move(*failure));
    }
  }
  return {};
}

Result<void> TcpTransport::Move() {
  Poll(0);
  return CheckConnections();
}

Result<void> TcpTransport::CheckNotice(TcpConnection& connection, int peer) {
  if (!call_check_) return {};
  auto judged = call_check_(peer, *connection.receiver().notice());
  if (!judged) return Propagate(judged);
  // A peer in a later call waits until this rank reaches it.
  if (*judged != PeerCall::kLater) connection.receiver().ForgetNotice();
  return {};
}

void TcpTransport::NotifyPeers() {
  const auto now = steady_clock::now();
  if (!call_check_ || now < notify_from_) return;
  notify_from_ = now + kNameEvery;
  if (now >= entered_ + kNameAfter) named_ = FindLateRank();
  for (auto& [key, connection] : connections_) {
    const auto told = notified_.find(key.endpoint.peer);
    if (told != notified_.end() && told->second == named_) continue;
    const bool sent = connection->sender().SendNotice(call_, named_.value_or(-1));
    if (sent) notified_[key.endpoint.peer] = named_;
  }
}

std::optional<int> TcpTransport::FindLateRank() const {
  std::map<int, PeerInCall> peers;
  const auto is_present = [&](int peer, const MessageTag& theirs) {
    const auto call = call_check_(peer, theirs);
    return !call || *call != PeerCall::kEarlier;
  };
  if (met_) peers[*met_] = {.peer = *met_, .is_awaited = true};
  for (const auto& [key, connection] : connections_) {
    PeerInCall& peer = peers[key.endpoint.peer];
    peer.peer = key.endpoint.peer;
    const TcpReceiver& receiver = connection->receiver();
    peer.is_awaited |= receiver.NeedsMessage() || connection->sender().NeedsSlot();
    const auto& call = receiver.last_call();
    peer.has_entered |= call && is_present(peer.peer, *call);
    const auto& notice = receiver.last_notice();
    if (notice && notice->awaited != 0 && is_present(peer.peer, notice->tag)) {
      peer.named = static_cast<int>(notice->awaited - 1);
    }
  }
  std::vector<PeerInCall> known;
  for (const auto& [number, peer] : peers) known.push_back(peer);
  return transport::FindLateRank(rank(), size(), known);
}

Error TcpTransport::TimedOut() const {
  const std::optional<int> late = call_check_ ? FindLateRank() : std::nullopt;
  return {ErrorCode::kUnavailable,
          late ? fmt::format("timed out: rank {} has not entered the call", *late) : "timed out"};
}

// Polls all connections, then sends and receives on those that are ready. Returns whether any was.
bool TcpTransport::Poll(int milliseconds) {
  polled_.clear();
  ready_.clear();
  for (const auto& [key, connection] : connections_) {
    if (connection->receiver().HasMore()) {
      connection->receiver().Receive();
      return true;
    }
    const short events = connection->PrepareToPoll();
    if (events == 0) continue;
    polled_.push_back({.fd = connection->socket(), .events = events});
    ready_.push_back(connection.get());
  }
  if (::poll(polled_.data(), polled_.size(), milliseconds) <= 0) return false;
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents == 0) continue;
    ready_[i]->MarkReady(polled_[i].revents);
    ready_[i]->sender().Send();
    ready_[i]->receiver().Receive();
  }
  return true;
}

// Polls and yields for a while before it sleeps, which is much faster if the peer is about to send.
// It uses poll(2) because trying to receive would take the socket's lock and delay incoming data.
Result<void> TcpTransport::Wait(Deadline deadline) {
  const auto yield_until = steady_clock::now() + kYieldFor;
  while (true) {
    const bool sleeps = steady_clock::now() >= yield_until;
    auto well = CheckConnections();
    if (!well || (sleeps && token_.PassOn())) return well;
    if (Poll(sleeps ? MillisecondsUntil(deadline) : 0)) return CheckConnections();
    NotifyPeers();
    if (!sleeps) {
      ::sched_yield();
    } else if (steady_clock::now() >= deadline) {
      return tl::unexpected(TimedOut());
    }
  }
}

Result<bool> TcpTransport::TryWait(std::chrono::microseconds patience) {
  auto well = CheckConnections();
  if (!well) return Propagate(well);
  if (patience.count() > 0 && token_.PassOn()) return true;
  const bool moved = Poll(
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(patience).count()));
  NotifyPeers();
  well = CheckConnections();
  if (!well) return Propagate(well);
  return moved;
}

Result<void> TcpTransport::Flush(Deadline deadline) {
  while (std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& entry) { return entry.second->sender().WantsToSend(); })) {
    auto moved = Wait(deadline);
    if (!moved) return moved;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Transport>> JoinTcp(RendezvousStore& store, const std::string& name,
                                           int rank, int size, const TcpOptions& options) {
  auto valid = Rendezvous::CheckRank(rank, size);
  if (!valid) return Propagate(valid);
  if (options.slots < 1 || options.slots > kMaxSlots || options.slot_bytes < 64) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} slots of {} bytes: use 1 to {} slots of at least 64 bytes",
                            options.slots, options.slot_bytes, kMaxSlots));
  }
  auto transport = std::make_unique<TcpTransport>(store, name, rank, size, options);
  auto started = transport->Start();
  if (!started) return Propagate(started);
  return transport;
}

}  // namespace espalier::transport
