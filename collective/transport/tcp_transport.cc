#include "collective/transport/tcp_transport.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "collective/transport/fork_guard.h"
#include "collective/transport/tcp_connection.h"
#include "collective/transport/tcp_socket.h"
#include "common/base/check.h"

namespace espalier::transport {
namespace {

using std::chrono::steady_clock;

constexpr int kMaxSlots = 64;
constexpr std::uint32_t kVersion = 3;
// A rank that waits for so long tells its peers what it is doing.
constexpr std::chrono::milliseconds kLongWait{100};
constexpr std::chrono::microseconds kGivesWay{50};
// Of those who have connected and not said who they are: beyond it the oldest gives way.
constexpr std::size_t kMostCallers = 256;
constexpr std::chrono::seconds kLongestSilence{10};

// Which way messages go on a connection, seen from the rank that has it.
enum class Direction : std::uint8_t { kBoth, kOut, kIn };

// The first bytes on a connection, from the rank that opened it.
struct Hello {
  std::uint32_t magic = 0x45535448;
  std::uint32_t version = kVersion;
  std::uint64_t group = 0;  // drawn by the other rank, which published it
  std::int32_t rank = 0;
  std::int32_t channel = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t one_way = 0;
};

// Where a rank listens, as it is in the store: "address port group version".
std::string KeyOf(const std::string& name, int rank) {
  return fmt::format("{}/tcp.{}", name, rank);
}

class TcpTransport : public Transport {
 public:
  TcpTransport(Store& store, std::string name, int rank, int size, TcpOptions options)
      : store_(store),
        name_(std::move(name)),
        rank_(rank),
        size_(size),
        options_(std::move(options)),
        group_((std::uint64_t{std::random_device()()} << 32) | std::random_device()()),
        pool_(options_.slot_bytes, options_.memory) {}

  ~TcpTransport() override;

  Result<void> Start() {
    if (options_.listener == nullptr) {
      auto listener = ListenOn(options_.address, 0);
      if (!listener) return Propagate(listener);
      options_.listener = std::move(*listener);
    }
    guard_.emplace(options_.listener->get());
    const auto port = LocalPort(options_.listener->get());
    if (!port) return tl::unexpected<Error>(port.error());
    return store_.Set(KeyOf(name_, rank_),
                      fmt::format("{} {} {} {}", options_.address, *port, group_, kVersion));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::size_t slot_bytes() const override { return options_.slot_bytes; }
  std::size_t message_bytes() const override {
    return std::min(options_.message_bytes, options_.slot_bytes);
  }
  int slots() const override { return options_.slots; }

  void Enter(const MessageTag& call, const CallCheck& check) override {
    call_ = call;
    call_check_ = check;
    told_.clear();
    tells_from_ = steady_clock::now() + kLongWait;
  }
  Result<void> Connect(std::span<const Endpoint> endpoints, Deadline deadline) override;
  Outbox& outbox(Endpoint endpoint) override {
    return Find({endpoint, options_.planned ? Direction::kOut : Direction::kBoth});
  }
  Inbox& inbox(Endpoint endpoint) override {
    return Find({endpoint, options_.planned ? Direction::kIn : Direction::kBoth});
  }
  Result<void> Wait(Deadline deadline) override;
  Result<void> Flush(Deadline deadline) override;
  Result<void> Check() override;
  void Abort(const Error& cause) override {
    for (auto& [key, connection] : connections_) connection->SendAbort(cause.message);
  }

 private:
  struct Key {
    Endpoint endpoint;
    Direction direction = Direction::kBoth;
    auto operator<=>(const Key&) const = default;
  };

  Result<void> CheckEndpoint(Endpoint endpoint) const;
  bool Dials(const Key& key) const;
  Result<void> Reach(const Key& key, Deadline deadline);
  Result<void> AwaitPeers(std::span<const Key> keys, Deadline deadline);
  void AwaitCallers(Deadline deadline);
  void TakeCallers();
  void HearCallers();
  void Welcome(const Hello& hello, UniqueFd socket);
  Result<void> CheckWait(int peer);
  Result<std::string> AwaitKeyOf(int peer, Deadline deadline);
  Result<void> Move();
  Result<void> CheckConnections();
  Result<void> CheckNotice(TcpConnection& connection, int peer);
  void TellPeers();
  bool Poll(int milliseconds);
  bool RanksShareCores() const;

  TcpConnection& Find(const Key& key) {
    const auto found = connections_.find(key);
    ESPALIER_CHECK(found != connections_.end(), "peer={} channel={}", key.endpoint.peer,
                   key.endpoint.channel);
    return *found->second;
  }
  void Add(const Key& key, UniqueFd socket) {
    connections_.emplace(key, std::make_unique<TcpConnection>(std::move(socket), key.endpoint.peer,
                                                              options_.slots, pool_, turn_));
  }

  Store& store_;
  std::string name_;
  int rank_;
  int size_;
  TcpOptions options_;
  std::uint64_t group_;
  std::optional<ForkGuard> guard_;  // of the listener
  SlotPool pool_;
  LendingTurn turn_;
  std::map<Key, std::unique_ptr<TcpConnection>> connections_;
  // Who has connected and not yet said who it is, the oldest first. Strangers among them keep
  // nobody waiting.
  struct Caller {
    UniqueFd socket;
    steady_clock::time_point since;
    Hello hello;
    std::size_t received = 0;  // bytes of it
  };
  std::vector<Caller> callers_;
  std::vector<pollfd> polled_;
  std::vector<TcpConnection*> ready_;  // of them
  MessageTag call_ = {};
  CallCheck call_check_;
  std::set<int> told_;  // peers, of the call
  steady_clock::time_point tells_from_;
};

// What is planned may be opened again from the same ports: a connection that all messages have
// left, or that leads nowhere, is reset instead of closed, and nobody remembers it.
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

Result<void> TcpTransport::CheckEndpoint(Endpoint endpoint) const {
  const bool is_there = endpoint.peer >= 0 && endpoint.peer < size_ && endpoint.peer != rank_ &&
                        endpoint.channel >= 0;
  if (is_there) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("rank {} has no channel {} to rank {}: there are {} ranks", rank_,
                          endpoint.channel, endpoint.peer, size_));
}

bool TcpTransport::Dials(const Key& key) const {
  return key.direction == Direction::kBoth ? key.endpoint.peer < rank_
                                           : key.direction == Direction::kOut;
}

Result<void> TcpTransport::Connect(std::span<const Endpoint> endpoints, Deadline deadline) {
  std::vector<Key> keys;
  for (const Endpoint& endpoint : endpoints) {
    auto checked = CheckEndpoint(endpoint);
    if (!checked) return checked;
    if (!options_.planned) {
      keys.push_back({endpoint, Direction::kBoth});
      continue;
    }
    if (options_.planned->sends.contains(endpoint)) keys.push_back({endpoint, Direction::kOut});
    if (options_.planned->receives.contains(endpoint)) keys.push_back({endpoint, Direction::kIn});
  }
  // The listener takes callers before anybody accepts them: no order can lock up.
  for (const Key& key : keys) {
    if (!Dials(key) || connections_.contains(key)) continue;
    auto reached = Reach(key, deadline);
    if (!reached) return reached;
  }
  auto met = AwaitPeers(keys, deadline);
  turn_.is_kept = RanksShareCores();
  return met;
}

bool TcpTransport::RanksShareCores() const {
  std::set<int> ranks{rank_};
  for (const auto& [key, connection] : connections_) {
    if (IsWithinHost(connection->socket())) ranks.insert(key.endpoint.peer);
  }
  const long cores = options_.cores > 0 ? options_.cores : ::sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<long>(ranks.size()) > cores;
}

Result<void> TcpTransport::Reach(const Key& key, Deadline deadline) {
  const Endpoint endpoint = key.endpoint;
  const auto fail = [&](const Error& error) {
    return Fail(error.code, fmt::format("rank {} (channel {}): {}", endpoint.peer, endpoint.channel,
                                        error.message));
  };
  const auto place = AwaitKeyOf(endpoint.peer, deadline);
  if (!place) return fail(place.error());
  const std::size_t port_begin = place->find(' ') + 1;
  char* port_end = nullptr;
  const auto port = static_cast<std::uint16_t>(
      std::strtoul(place->c_str() + std::min(port_begin, place->size()), &port_end, 10));
  char* group_end = nullptr;
  const std::uint64_t group = std::strtoull(port_end, &group_end, 10);
  if (std::strtoul(group_end, nullptr, 10) != kVersion) {
    return fail({ErrorCode::kFailedPrecondition,
                 fmt::format("it speaks another version than {} (\"{}\")", kVersion, *place)});
  }
  const auto to = ParseAddress(place->substr(0, port_begin == 0 ? 0 : port_begin - 1), port);
  if (!to) return fail(to.error());
  const bool is_planned = key.direction == Direction::kOut;
  const auto from =
      ParseAddress(options_.address, is_planned ? options_.planned->sends.at(endpoint) : 0);
  if (!from) return fail(from.error());
  auto socket = Dial(*from, *to, deadline, [&] { return CheckWait(endpoint.peer); });
  if (!socket) return fail(socket.error());
  const Hello hello = {.group = group,
                       .rank = rank_,
                       .channel = endpoint.channel,
                       .slot_bytes = options_.slot_bytes,
                       .slots = static_cast<std::uint32_t>(options_.slots),
                       .one_way = is_planned ? 1U : 0U};
  const auto sent = SendWhole(socket->get(), &hello, sizeof(hello), deadline);
  if (!sent) return fail(sent.error());
  Add(key, std::move(*socket));
  return {};
}

// A caller that is no rank of this group is dropped without a word.
void TcpTransport::Welcome(const Hello& hello, UniqueFd socket) {
  const Hello expected = {.group = group_,
                          .rank = hello.rank,
                          .channel = hello.channel,
                          .slot_bytes = options_.slot_bytes,
                          .slots = static_cast<std::uint32_t>(options_.slots),
                          .one_way = options_.planned ? 1U : 0U};
  if (std::memcmp(&hello, &expected, sizeof(hello)) != 0) return;
  if (!CheckEndpoint({hello.rank, hello.channel})) return;
  const Key key = {{hello.rank, hello.channel},
                   options_.planned ? Direction::kIn : Direction::kBoth};
  if (!Dials(key)) Add(key, std::move(socket));
}

Result<void> TcpTransport::AwaitPeers(std::span<const Key> keys, Deadline deadline) {
  while (true) {
    const auto missing = std::find_if(keys.begin(), keys.end(),
                                      [&](const Key& key) { return !connections_.contains(key); });
    if (missing == keys.end()) return {};
    auto well = CheckWait(missing->endpoint.peer);
    if (!well) return well;
    if (steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("rank {} has not come in time (channel {})", missing->endpoint.peer,
                              missing->endpoint.channel));
    }
    AwaitCallers(deadline);
    TakeCallers();
    HearCallers();
  }
}

// Until one calls, says something or goes, or a nap is over.
void TcpTransport::AwaitCallers(Deadline deadline) {
  constexpr std::chrono::milliseconds kNap{50};
  polled_.assign({{options_.listener->get(), POLLIN, 0}});
  for (const Caller& caller : callers_) polled_.push_back({caller.socket.get(), POLLIN, 0});
  ::poll(polled_.data(), polled_.size(),
         MillisecondsUntil(std::min(deadline, steady_clock::now() + kNap)));
}

void TcpTransport::TakeCallers() {
  while (UniqueFd socket = Accept(options_.listener->get())) {
    if (callers_.size() >= kMostCallers) callers_.erase(callers_.begin());
    callers_.push_back({.socket = std::move(socket), .since = steady_clock::now(), .hello = {}});
  }
}

void TcpTransport::HearCallers() {
  const auto now = steady_clock::now();
  std::erase_if(callers_, [&](Caller& caller) {
    auto* const bytes = reinterpret_cast<char*>(&caller.hello);
    const ssize_t got = ::recv(caller.socket.get(), bytes + caller.received,
                               sizeof(Hello) - caller.received, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return true;
    if (got > 0) caller.received += static_cast<std::size_t>(got);
    if (caller.received < sizeof(Hello)) return now - caller.since >= kLongestSilence;
    Welcome(caller.hello, std::move(caller.socket));
    return true;
  });
}

// A peer that is waited for may give up or go meanwhile.
Result<void> TcpTransport::CheckWait(int peer) {
  auto moved = Move();
  if (!moved) return moved;
  TellPeers();
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

Result<std::string> TcpTransport::AwaitKeyOf(int peer, Deadline deadline) {
  constexpr std::chrono::milliseconds kNap{50};
  while (true) {
    const Deadline nap = std::min(deadline, steady_clock::now() + kNap);
    auto value = store_.Get(KeyOf(name_, peer), nap);
    if (value || nap == deadline || steady_clock::now() < nap) return value;
    auto well = CheckWait(peer);
    if (!well) return Propagate(well);
  }
}

Result<void> TcpTransport::CheckConnections() {
  for (const auto& [key, connection] : connections_) {
    if (connection->notice()) {
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
  auto judged = call_check_(peer, *connection.notice());
  if (!judged) return Propagate(judged);
  if (*judged) connection.ForgetNotice();
  return {};
}

void TcpTransport::TellPeers() {
  if (!call_check_ || steady_clock::now() < tells_from_) return;
  for (auto& [key, connection] : connections_) {
    if (key.direction == Direction::kIn || told_.contains(key.endpoint.peer)) continue;
    if (connection->SendNotice(call_)) told_.insert(key.endpoint.peer);
  }
}

// Whether a socket has become ready for what is wanted of it, and what that has moved.
bool TcpTransport::Poll(int milliseconds) {
  polled_.clear();
  ready_.clear();
  for (const auto& [key, connection] : connections_) {
    if (connection->HasMore()) {
      connection->Receive();
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
    ready_[i]->Send();
    ready_[i]->Receive();
  }
  return true;
}

// Asking poll, and giving way, for a while is much faster than a sleep where the peer is about to
// send; to ask the socket itself would keep its lock from what comes in.
Result<void> TcpTransport::Wait(Deadline deadline) {
  const auto gives_way_until = steady_clock::now() + kGivesWay;
  while (true) {
    const bool sleeps = steady_clock::now() >= gives_way_until;
    auto well = CheckConnections();
    if (!well || (sleeps && turn_.PassOn())) return well;
    if (Poll(sleeps ? MillisecondsUntil(deadline) : 0)) return CheckConnections();
    TellPeers();
    if (!sleeps) {
      ::sched_yield();
    } else if (steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kUnavailable, "timed out");
    }
  }
}

Result<void> TcpTransport::Flush(Deadline deadline) {
  while (std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& entry) { return entry.second->WantsToSend(); })) {
    auto moved = Wait(deadline);
    if (!moved) return moved;
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const UniqueFd>> ListenOn(const std::string& address, std::uint16_t port) {
  auto place = ParseAddress(address, port);
  if (!place) return Propagate(place);
  auto socket = Listen(*place);
  if (!socket) return Propagate(socket);
  return std::make_shared<const UniqueFd>(std::move(*socket));
}

Result<std::unique_ptr<Transport>> JoinTcp(Store& store, const std::string& name, int rank,
                                           int size, const TcpOptions& options) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("rank {} of {}: ranks are 0 and up", rank, size));
  }
  if (options.slots < 1 || options.slots > kMaxSlots || options.slot_bytes < 64) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} slots of {} bytes: 1 to {} of at least 64", options.slots,
                            options.slot_bytes, kMaxSlots));
  }
  auto transport = std::make_unique<TcpTransport>(store, name, rank, size, options);
  auto started = transport->Start();
  if (!started) return Propagate(started);
  return transport;
}

}  // namespace espalier::transport
