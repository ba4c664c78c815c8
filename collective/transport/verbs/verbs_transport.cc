#include "collective/transport/verbs/verbs_transport.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <utility>

#include "collective/transport/rendezvous/connection_acceptor.h"
#include "collective/transport/rendezvous/handshake.h"
#include "collective/transport/rendezvous/rendezvous.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "collective/transport/verbs/verbs_connection.h"
#include "common/base/check.h"

namespace espalier::transport {
namespace {

using std::chrono::steady_clock;

constexpr int kMaxSlots = 64;
constexpr std::uint32_t kMagic = 0x45535652;
constexpr std::uint32_t kVersion = 2;
// How often Wait polls the completion queues before it sleeps.
constexpr int kSpins = 20;
// The longest sleep of a rank that waits for connections.
constexpr std::chrono::milliseconds kLongestNap{100};

class VerbsTransportImpl : public VerbsTransport {
 public:
  VerbsTransportImpl(RendezvousStore& store, std::string name, int rank, int size,
                     VerbsOptions options)
      : options_(std::move(options)),
        rendezvous_(store, std::move(name), rank, size,
                    {.medium = "verbs",
                     .magic = kMagic,
                     .version = kVersion,
                     .form = static_cast<std::uint32_t>(options_.queue_pairs),
                     .slots = options_.slots,
                     .slot_bytes = options_.slot_bytes},
                    options_.members) {
    if (options_.control_address.empty()) options_.control_address = options_.address;
  }

  Result<void> Start();

  int rank() const override { return rendezvous_.rank(); }
  int size() const override { return rendezvous_.size(); }
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
  // A connection after its handshake, while both ends exchange the setup of their queue pairs.
  struct Pending {
    UniqueFd socket;
    Arrival<ConnectionSetup> setup;
    std::unique_ptr<VerbsConnection> connection;  // set on the higher rank, which connects
  };

  bool IsExpected(const Hello& hello) const;
  Result<void> StartHandshake(Endpoint endpoint, Deadline deadline);
  Result<void> AdvanceHandshakes();
  Result<void> AdvancePending();
  Result<bool> Finish(Endpoint endpoint, Pending& pending);
  void AwaitActivity(Deadline deadline);
  // Returns the device with this address, which is opened at the first call.
  Result<VerbsDevice*> Device(const IpAddress& address);
  Result<std::unique_ptr<VerbsConnection>> MakeConnection(Endpoint endpoint);
  Result<bool> Move(bool checks_sockets);
  Result<void> CheckWait() { return options_.check ? options_.check() : Result<void>(); }
  bool Sleep(int milliseconds);

  VerbsConnection& Find(Endpoint endpoint) {
    const auto found = connections_.find(endpoint);
    ESPALIER_CHECK(found != connections_.end(), "peer={} channel={}", endpoint.peer,
                   endpoint.channel);
    return *found->second;
  }

  VerbsOptions options_;
  Rendezvous rendezvous_;
  std::map<IpAddress, VerbsDevice> devices_;  // opened devices by their address
  std::optional<ConnectionAcceptor> acceptor_;
  std::map<Endpoint, HandshakeClient> handshakes_;  // handshakes that this rank has started
  std::map<Endpoint, Pending> pending_;
  std::map<Endpoint, std::unique_ptr<VerbsConnection>> connections_;
  std::vector<pollfd> polled_;
};

Result<void> VerbsTransportImpl::Start() {
  const auto address = IpAddress::Parse(options_.address);
  if (!address) return tl::unexpected(address.error());
  const auto control = IpAddress::Parse(options_.control_address);
  if (!control) return tl::unexpected(control.error());
  auto allowed = options_.members.CheckMeetsAt(*control);
  if (!allowed) return allowed;
  if (auto opened = Device(*address); !opened) return Propagate(opened);
  const auto place = ParseAddress(options_.control_address, 0);
  if (!place) return tl::unexpected(place.error());
  auto listener = Listen(*place);
  if (!listener) return Propagate(listener);
  const auto port = LocalPort(listener->get());
  if (!port) return tl::unexpected(port.error());
  acceptor_.emplace(std::make_shared<const UniqueFd>(std::move(*listener)), options_.members.key);
  return rendezvous_.Publish(*control, *port, options_.deadline);
}

Result<VerbsDevice*> VerbsTransportImpl::Device(const IpAddress& address) {
  if (const auto known = devices_.find(address); known != devices_.end()) return &known->second;
  auto found = verbs::FindRoceAddress(address);
  if (!found) return Propagate(found);
  VerbsDevice device{.address = std::move(*found)};
  auto context = verbs::OpenDevice(device.address.device);
  if (!context) return Propagate(context);
  device.context = std::move(*context);
  auto domain = verbs::MakeProtectionDomain(*device.context);
  if (!domain) return Propagate(domain);
  device.domain = std::move(*domain);
  auto channel = verbs::MakeCompletionChannel(*device.context);
  if (!channel) return Propagate(channel);
  device.channel = std::move(*channel);
  return &devices_.emplace(address, std::move(device)).first->second;
}

Result<std::unique_ptr<VerbsConnection>> VerbsTransportImpl::MakeConnection(Endpoint endpoint) {
  std::vector<std::uint16_t> ports;
  if (options_.source_ports) ports = options_.source_ports(endpoint);
  if (ports.size() > static_cast<std::size_t>(options_.queue_pairs)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} source ports for {} queue pairs (at most one for each)",
                            ports.size(), options_.queue_pairs));
  }
  auto address = IpAddress::Parse(options_.address);  // as Start has checked
  if (options_.device_of) address = options_.device_of(endpoint).value_or(*address);
  auto device = Device(*address);
  if (!device) return Propagate(device);
  return VerbsConnection::Make(**device, options_, endpoint.peer, ports);
}

Result<void> VerbsTransportImpl::Connect(std::span<const Endpoint> endpoints, Deadline deadline) {
  for (const Endpoint& endpoint : endpoints) {
    auto checked = rendezvous_.CheckEndpoint(endpoint);
    if (!checked) return checked;
  }
  for (const Endpoint& endpoint : endpoints) {
    const bool is_known = connections_.contains(endpoint) || pending_.contains(endpoint) ||
                          handshakes_.contains(endpoint);
    if (endpoint.peer > rank() || is_known) continue;
    if (auto reached = StartHandshake(endpoint, deadline); !reached) return reached;
  }
  // Accept other ranks meanwhile, as they may need that before they connect to this rank.
  while (true) {
    acceptor_->Serve([this](const Hello& hello) { return IsExpected(hello); },
                     [this](const Hello& hello, UniqueFd socket) {
                       pending_.insert_or_assign({hello.from, hello.channel},
                                                 Pending{std::move(socket), {}, nullptr});
                     });
    if (auto moved = AdvanceHandshakes(); !moved) return moved;
    if (auto moved = AdvancePending(); !moved) return moved;
    const auto missing = std::find_if(endpoints.begin(), endpoints.end(),
                                      [&](const Endpoint& e) { return !connections_.contains(e); });
    if (missing == endpoints.end()) return {};
    if (auto checked = CheckWait(); !checked) return checked;
    if (steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("rank {} did not connect in time (channel {})", missing->peer,
                              missing->channel));
    }
    AwaitActivity(deadline);
  }
}

// Waits for an event on a handshake or a pending connection, for at most kLongestNap.
void VerbsTransportImpl::AwaitActivity(Deadline deadline) {
  polled_.clear();
  acceptor_->AddTo(polled_);
  for (const auto& [endpoint, call] : handshakes_) polled_.push_back({call.socket(), POLLIN, 0});
  for (const auto& [endpoint, pending] : pending_) {
    polled_.push_back({pending.socket.get(), POLLIN, 0});
  }
  ::poll(polled_.data(), polled_.size(),
         MillisecondsUntil(std::min(deadline, steady_clock::now() + kLongestNap)));
}

bool VerbsTransportImpl::IsExpected(const Hello& hello) const {
  return rendezvous_.IsExpected(hello) && hello.from > rank();
}

Result<void> VerbsTransportImpl::StartHandshake(Endpoint endpoint, Deadline deadline) {
  const auto place = rendezvous_.FindPeer(endpoint.peer, deadline);
  if (!place) return FailAt(endpoint, place.error());
  const auto to = ParseAddress(place->address.ToString(), place->port);
  const auto from = ParseAddress(options_.control_address, 0);
  if (!to || !from) return FailAt(endpoint, to ? from.error() : to.error());
  auto socket = Dial(*from, *to, deadline, [this] { return CheckWait(); });
  if (!socket) return FailAt(endpoint, socket.error());
  handshakes_.insert_or_assign(
      endpoint, HandshakeClient(std::move(*socket), rendezvous_.HelloTo(endpoint, place->group),
                                options_.members.key));
  return {};
}

// Advances the handshakes of this rank; after each it sends the setup of this end.
Result<void> VerbsTransportImpl::AdvanceHandshakes() {
  for (auto call = handshakes_.begin(); call != handshakes_.end();) {
    const Endpoint endpoint = call->first;
    const Progress progress = call->second.Advance();
    if (progress == Progress::kGoesOn) {
      ++call;
      continue;
    }
    if (progress != Progress::kDone) return FailAt(endpoint, HandshakeError(progress));
    auto connection = MakeConnection(endpoint);
    if (!connection) return FailAt(endpoint, connection.error());
    UniqueFd socket = call->second.TakeSocket();
    if (!SendAtOnce(socket.get(), (*connection)->Setup())) {
      return FailAt(endpoint, HandshakeError(Progress::kHungUp));
    }
    pending_.insert_or_assign(endpoint, Pending{std::move(socket), {}, std::move(*connection)});
    call = handshakes_.erase(call);
  }
  return {};
}

Result<void> VerbsTransportImpl::AdvancePending() {
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    auto is_over = Finish(pending->first, pending->second);
    if (!is_over) return FailAt(pending->first, is_over.error());
    pending = *is_over ? pending_.erase(pending) : std::next(pending);
  }
  return {};
}

// Receives the peer's setup and starts the connection. Returns true if the connection is made, or
// if the connecting rank has hung up.
Result<bool> VerbsTransportImpl::Finish(Endpoint endpoint, Pending& pending) {
  const bool has_called = pending.connection != nullptr;
  const Progress progress = pending.setup.Receive(pending.socket.get());
  if (progress == Progress::kGoesOn) return false;
  if (progress != Progress::kDone) {
    if (!has_called) return true;
    return tl::unexpected(HandshakeError(progress));
  }
  if (!has_called) {
    if (connections_.contains(endpoint)) return true;
    auto connection = MakeConnection(endpoint);
    if (!connection) return Propagate(connection);
    pending.connection = std::move(*connection);
  }
  const ConnectionSetup own = pending.connection->Setup();
  const int socket = pending.socket.get();
  auto started = pending.connection->Start(std::move(pending.socket), pending.setup.value());
  if (!started) return Propagate(started);
  // This end connects before the other end gets its setup, so that it can receive at once.
  if (!has_called && !SendAtOnce(socket, own)) return true;
  connections_.emplace(endpoint, std::move(pending.connection));
  return true;
}

// Reports any peer that has left, even if nothing is needed of it.
Result<void> VerbsTransportImpl::Check() {
  auto moved = Move(true);
  if (!moved) return Propagate(moved);
  for (const auto& [endpoint, connection] : connections_) {
    if (!connection->HasEnded()) continue;
    return Fail(ErrorCode::kUnavailable, fmt::format("rank {} is gone", endpoint.peer));
  }
  return {};
}

Result<bool> VerbsTransportImpl::Move(bool checks_sockets) {
  bool moved = false;
  for (auto& [endpoint, connection] : connections_) {
    if (connection->Move(checks_sockets)) moved = true;
    if (auto failure = connection->Failure()) {
      return Fail(ErrorCode::kUnavailable, std::move(*failure));
    }
  }
  return moved;
}

// Sleeps until a completion or a notice comes; returns false if the time passes first.
bool VerbsTransportImpl::Sleep(int milliseconds) {
  polled_.clear();
  for (const auto& [address, device] : devices_) {
    polled_.push_back({.fd = device.channel->fd, .events = POLLIN});
  }
  for (const auto& [endpoint, connection] : connections_) {
    if (!connection->HasEnded()) {
      polled_.push_back({.fd = connection->socket(), .events = POLLIN});
    }
  }
  if (::poll(polled_.data(), polled_.size(), milliseconds) <= 0) return false;
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  for (const auto& [address, device] : devices_) {
    while (ibv_get_cq_event(device.channel.get(), &queue, &unused) == 0) {
      ibv_ack_cq_events(queue, 1);
    }
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
    // Completions that came before Arm cause no event.
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

Result<std::unique_ptr<VerbsTransport>> JoinVerbs(RendezvousStore& store, const std::string& name,
                                                  int rank, int size, const VerbsOptions& options) {
  auto valid = Rendezvous::CheckRank(rank, size);
  if (!valid) return Propagate(valid);
  const bool has_slots =
      options.slots >= 1 && options.slots <= kMaxSlots && options.slot_bytes >= 64;
  if (!has_slots || options.queue_pairs < 1 || options.queue_pairs > kMaxLanes) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} slots of {} bytes and {} queue pairs: use 1 to {} slots of at least 64 "
                    "bytes, and 1 to {} queue pairs",
                    options.slots, options.slot_bytes, options.queue_pairs, kMaxSlots, kMaxLanes));
  }
  auto transport = std::make_unique<VerbsTransportImpl>(store, name, rank, size, options);
  auto started = transport->Start();
  if (!started) return Propagate(started);
  return transport;
}

}  // namespace espalier::transport
