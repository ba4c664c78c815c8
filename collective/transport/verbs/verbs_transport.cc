#include "collective/transport/verbs/verbs_transport.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "collective/transport/tcp_socket.h"
#include "collective/transport/verbs/verbs_connection.h"
#include "common/base/check.h"

namespace espalier::transport {
namespace {

using std::chrono::steady_clock;

constexpr int kMaxSlots = 64;
constexpr std::uint32_t kVersion = 1;
// Looks at the queues that often before it sleeps.
constexpr int kSpins = 20;
// How often a rank that waits for connections looks around.
constexpr std::chrono::milliseconds kLook{100};

// The first bytes on a TCP connection, from the higher rank; its setup follows, then the other's.
struct Hello {
  std::uint32_t magic = 0x45535652;
  std::uint32_t version = kVersion;
  std::uint64_t group = 0;  // drawn by the lower rank, which published it
  std::int32_t rank = 0;
  std::int32_t channel = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t queue_pairs = 0;
};
struct Greeting {
  Hello hello;
  ConnectionSetup setup;
};

// Where a rank listens, as it is in the store: "address port group".
std::string KeyOf(const std::string& name, int rank) {
  return fmt::format("{}/verbs.{}", name, rank);
}

class VerbsTransportImpl : public VerbsTransport {
 public:
  VerbsTransportImpl(Store& store, std::string name, int rank, int size, VerbsOptions options)
      : store_(store),
        name_(std::move(name)),
        rank_(rank),
        size_(size),
        options_(std::move(options)),
        group_((std::uint64_t{std::random_device()()} << 32) | std::random_device()()) {
    if (options_.control_address.empty()) options_.control_address = options_.address;
  }

  Result<void> Start();

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::size_t slot_bytes() const override { return options_.slot_bytes; }
  int slots() const override { return options_.slots; }

  Result<void> Connect(std::span<const Endpoint> endpoints, Deadline deadline) override;
  Outbox& outbox(Endpoint endpoint) override { return Find(endpoint); }
  Inbox& inbox(Endpoint endpoint) override { return Find(endpoint); }
  Result<void> Wait(Deadline deadline) override;
  Result<void> Flush(Deadline deadline) override;
  Result<void> Check() override;
  void Abort(const Error& cause) override {
    for (auto& [endpoint, connection] : connections_) connection->SendAbort(cause.message);
  }
  Result<void> SetSourcePorts(Endpoint endpoint, std::span<const std::uint16_t> ports) override {
    return Find(endpoint).SetSourcePorts(ports);
  }

 private:
  // Waits for the setup of the lower rank.
  struct Pending {
    UniqueFd socket;
    std::unique_ptr<VerbsConnection> connection;
  };

  Result<void> Reach(Endpoint endpoint, Deadline deadline);
  Result<UniqueFd> DialPeer(int peer, Deadline deadline, Hello& hello);
  Result<void> Welcome(UniqueFd socket, Deadline deadline);
  Result<void> Finish(Endpoint endpoint, Deadline deadline);
  Result<std::unique_ptr<VerbsConnection>> MakeConnection(Endpoint endpoint);
  Result<bool> Move(bool looks_at_sockets);
  Result<void> CheckWait() { return options_.check ? options_.check() : Result<void>(); }
  bool Sleep(int milliseconds);

  VerbsConnection& Find(Endpoint endpoint) {
    const auto found = connections_.find(endpoint);
    ESPALIER_CHECK(found != connections_.end(), "peer={} channel={}", endpoint.peer,
                   endpoint.channel);
    return *found->second;
  }

  Store& store_;
  std::string name_;
  int rank_;
  int size_;
  VerbsOptions options_;
  std::uint64_t group_;
  VerbsDevice device_;
  UniqueFd listener_;
  std::map<Endpoint, Pending> pending_;
  std::map<Endpoint, std::unique_ptr<VerbsConnection>> connections_;
  std::vector<pollfd> polled_;
};

Result<void> VerbsTransportImpl::Start() {
  const auto address = IpAddress::Parse(options_.address);
  if (!address) return tl::unexpected(address.error());
  auto found = verbs::FindRoceAddress(*address);
  if (!found) return Propagate(found);
  device_.address = std::move(*found);
  auto context = verbs::OpenDevice(device_.address.device);
  if (!context) return Propagate(context);
  device_.context = std::move(*context);
  auto domain = verbs::MakeProtectionDomain(*device_.context);
  if (!domain) return Propagate(domain);
  device_.domain = std::move(*domain);
  auto channel = verbs::MakeCompletionChannel(*device_.context);
  if (!channel) return Propagate(channel);
  device_.channel = std::move(*channel);
  const auto place = ParseAddress(options_.control_address, 0);
  if (!place) return tl::unexpected(place.error());
  auto listener = Listen(*place);
  if (!listener) return Propagate(listener);
  listener_ = std::move(*listener);
  const auto port = LocalPort(listener_.get());
  if (!port) return tl::unexpected(port.error());
  return store_.Set(KeyOf(name_, rank_),
                    fmt::format("{} {} {}", options_.control_address, *port, group_));
}

Result<std::unique_ptr<VerbsConnection>> VerbsTransportImpl::MakeConnection(Endpoint endpoint) {
  std::vector<std::uint16_t> ports;
  if (options_.source_ports) ports = options_.source_ports(endpoint);
  if (ports.size() > static_cast<std::size_t>(options_.queue_pairs)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} source ports for {} queue pairs",
                                                         ports.size(), options_.queue_pairs));
  }
  return VerbsConnection::Make(device_, options_, endpoint.peer, ports);
}

Result<void> VerbsTransportImpl::Connect(std::span<const Endpoint> endpoints, Deadline deadline) {
  for (const Endpoint& endpoint : endpoints) {
    if (endpoint.peer < 0 || endpoint.peer >= size_ || endpoint.peer == rank_ ||
        endpoint.channel < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("rank {} has no channel {} to rank {}: there are {} ranks", rank_,
                              endpoint.channel, endpoint.peer, size_));
    }
  }
  for (const Endpoint& endpoint : endpoints) {
    const bool is_known = connections_.contains(endpoint) || pending_.contains(endpoint);
    if (endpoint.peer > rank_ || is_known) continue;
    if (auto reached = Reach(endpoint, deadline); !reached) return reached;
  }
  // Whoever calls meanwhile is let in: others may wait for that before they come to us.
  while (true) {
    const auto missing = std::find_if(endpoints.begin(), endpoints.end(),
                                      [&](const Endpoint& e) { return !connections_.contains(e); });
    if (missing == endpoints.end()) return {};
    polled_.assign(1, {.fd = listener_.get(), .events = POLLIN});
    std::vector<Endpoint> waiting;
    for (const auto& [endpoint, pending] : pending_) {
      polled_.push_back({.fd = pending.socket.get(), .events = POLLIN});
      waiting.push_back(endpoint);
    }
    const Deadline look = std::min(deadline, steady_clock::now() + kLook);
    if (::poll(polled_.data(), polled_.size(), MillisecondsUntil(look)) <= 0) {
      if (auto checked = CheckWait(); !checked) return checked;
      if (steady_clock::now() < deadline) continue;
      return Fail(ErrorCode::kUnavailable, fmt::format("rank {} has not come in time (channel {})",
                                                       missing->peer, missing->channel));
    }
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (polled_[i + 1].revents == 0) continue;
      if (auto finished = Finish(waiting[i], deadline); !finished) return finished;
    }
    UniqueFd socket = Accept(listener_.get());
    if (!socket) continue;
    if (auto welcome = Welcome(std::move(socket), deadline); !welcome) return welcome;
  }
}

// The lower rank's socket, and the group that it has drawn.
Result<UniqueFd> VerbsTransportImpl::DialPeer(int peer, Deadline deadline, Hello& hello) {
  const auto place = store_.Get(KeyOf(name_, peer), deadline);
  if (!place) return tl::unexpected(place.error());
  const std::size_t port_begin = place->find(' ') + 1;
  char* port_end = nullptr;
  const auto port = static_cast<std::uint16_t>(
      std::strtoul(place->c_str() + std::min(port_begin, place->size()), &port_end, 10));
  hello.group = std::strtoull(port_end, nullptr, 10);
  const auto to = ParseAddress(place->substr(0, port_begin == 0 ? 0 : port_begin - 1), port);
  if (!to) return tl::unexpected(to.error());
  const auto from = ParseAddress(options_.control_address, 0);
  if (!from) return tl::unexpected(from.error());
  return Dial(*from, *to, deadline, [this] { return CheckWait(); });
}

Result<void> VerbsTransportImpl::Reach(Endpoint endpoint, Deadline deadline) {
  const auto fail = [&](const Error& error) {
    return Fail(error.code, fmt::format("rank {} (channel {}): {}", endpoint.peer, endpoint.channel,
                                        error.message));
  };
  auto connection = MakeConnection(endpoint);
  if (!connection) return fail(connection.error());
  Greeting greeting = {.hello = {.rank = rank_,
                                 .channel = endpoint.channel,
                                 .slot_bytes = options_.slot_bytes,
                                 .slots = static_cast<std::uint32_t>(options_.slots),
                                 .queue_pairs = static_cast<std::uint32_t>(options_.queue_pairs)},
                       .setup = (*connection)->Setup()};
  auto socket = DialPeer(endpoint.peer, deadline, greeting.hello);
  if (!socket) return fail(socket.error());
  const auto sent = SendWhole(socket->get(), &greeting, sizeof(greeting), deadline);
  if (!sent) return fail(sent.error());
  pending_.emplace(endpoint, Pending{std::move(*socket), std::move(*connection)});
  return {};
}

Result<void> VerbsTransportImpl::Finish(Endpoint endpoint, Deadline deadline) {
  Pending& pending = pending_.at(endpoint);
  ConnectionSetup setup;
  auto received = ReceiveWhole(pending.socket.get(), &setup, sizeof(setup), deadline);
  if (received) received = pending.connection->Start(std::move(pending.socket), setup);
  if (!received) {
    return Fail(received.error().code, fmt::format("rank {} (channel {}): {}", endpoint.peer,
                                                   endpoint.channel, received.error().message));
  }
  connections_.emplace(endpoint, std::move(pending.connection));
  pending_.erase(endpoint);
  return {};
}

// A caller that is no rank of this group is dropped without a word.
Result<void> VerbsTransportImpl::Welcome(UniqueFd socket, Deadline deadline) {
  Greeting greeting;
  constexpr std::chrono::seconds kPatience{1};
  const Deadline limit = std::min(deadline, steady_clock::now() + kPatience);
  if (!ReceiveWhole(socket.get(), &greeting, sizeof(greeting), limit)) return {};
  const Hello& hello = greeting.hello;
  const Hello expected = {.group = group_,
                          .rank = hello.rank,
                          .channel = hello.channel,
                          .slot_bytes = options_.slot_bytes,
                          .slots = static_cast<std::uint32_t>(options_.slots),
                          .queue_pairs = static_cast<std::uint32_t>(options_.queue_pairs)};
  if (std::memcmp(&hello, &expected, sizeof(hello)) != 0) return {};
  const Endpoint endpoint = {hello.rank, hello.channel};
  const bool is_ours = hello.rank > rank_ && hello.rank < size_ && hello.channel >= 0;
  if (!is_ours || connections_.contains(endpoint)) return {};
  auto connection = MakeConnection(endpoint);
  if (!connection) return Propagate(connection);
  const ConnectionSetup own = (*connection)->Setup();
  const int descriptor = socket.get();
  // Connected before the other end hears of it: what it sends then finds somebody.
  if (auto started = (*connection)->Start(std::move(socket), greeting.setup); !started) {
    return started;
  }
  if (!SendWhole(descriptor, &own, sizeof(own), limit)) return {};
  connections_.emplace(endpoint, std::move(*connection));
  return {};
}

// Whoever has left is missed even where nothing is asked of him.
Result<void> VerbsTransportImpl::Check() {
  auto moved = Move(true);
  if (!moved) return Propagate(moved);
  for (const auto& [endpoint, connection] : connections_) {
    if (!connection->HasEnded()) continue;
    return Fail(ErrorCode::kUnavailable, fmt::format("rank {} is gone", endpoint.peer));
  }
  return {};
}

Result<bool> VerbsTransportImpl::Move(bool looks_at_sockets) {
  bool moved = false;
  for (auto& [endpoint, connection] : connections_) {
    if (connection->Move(looks_at_sockets)) moved = true;
    if (auto failure = connection->Failure()) {
      return Fail(ErrorCode::kUnavailable, std::move(*failure));
    }
  }
  return moved;
}

// Sleeps until a queue or a peer has something to say; false past the time.
bool VerbsTransportImpl::Sleep(int milliseconds) {
  polled_.assign(1, {.fd = device_.channel->fd, .events = POLLIN});
  for (const auto& [endpoint, connection] : connections_) {
    if (!connection->HasEnded()) {
      polled_.push_back({.fd = connection->socket(), .events = POLLIN});
    }
  }
  if (::poll(polled_.data(), polled_.size(), milliseconds) <= 0) return false;
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  while (ibv_get_cq_event(device_.channel.get(), &queue, &unused) == 0) {
    ibv_ack_cq_events(queue, 1);
  }
  return true;
}

Result<void> VerbsTransportImpl::Wait(Deadline deadline) {
  while (true) {
    for (int spin = 0; spin < kSpins; ++spin) {
      auto moved = Move(false);
      if (!moved) return Propagate(moved);
      if (*moved) return {};
    }
    for (auto& [endpoint, connection] : connections_) connection->Arm();
    // What came before that makes no event.
    auto moved = Move(true);
    if (!moved) return Propagate(moved);
    if (*moved) return {};
    if (!Sleep(MillisecondsUntil(deadline)) && steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kUnavailable, "timed out");
    }
  }
}

Result<void> VerbsTransportImpl::Flush(Deadline deadline) {
  while (std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& entry) { return !entry.second->IsFlushed(); })) {
    auto moved = Wait(deadline);
    if (!moved) return moved;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<VerbsTransport>> JoinVerbs(Store& store, const std::string& name, int rank,
                                                  int size, const VerbsOptions& options) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("rank {} of {}: ranks are 0 and up", rank, size));
  }
  const bool has_slots =
      options.slots >= 1 && options.slots <= kMaxSlots && options.slot_bytes >= 64;
  if (!has_slots || options.queue_pairs < 1 || options.queue_pairs > kMaxLanes) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} slots of {} bytes and {} queue pairs: 1 to {} of at least 64, and "
                    "1 to {}",
                    options.slots, options.slot_bytes, options.queue_pairs, kMaxSlots, kMaxLanes));
  }
  auto transport = std::make_unique<VerbsTransportImpl>(store, name, rank, size, options);
  auto started = transport->Start();
  if (!started) return Propagate(started);
  return transport;
}

}  // namespace espalier::transport
