#include "agent/local/local_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "agent/local/flow_description.h"
#include "agent/local/process_job.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/os/message_socket.h"

namespace espalier::agent {
namespace {

constexpr int kEventsPerTurn = 64;
constexpr int kMessagesPerTurn = 64;
constexpr Duration kWarningInterval = std::chrono::seconds(1);
constexpr std::uint64_t kListenerTag = 0;  // clients are numbered from 1

bool Watch(int epoll, int fd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = tag;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void SendWelcome(int socket, const espalier_local_welcome& welcome, std::optional<int> memory) {
  // A client that is not there to read it is noticed by its hang-up.
  (void)SendMessage(socket, &welcome, sizeof(welcome), memory.value_or(-1));
}

void Refuse(int socket, int status) {
  SendWelcome(socket,
              {.version = ESPALIER_LOCAL_VERSION,
               .status = static_cast<std::uint32_t>(status),
               .client = 0,
               .slot_count = 0},
              std::nullopt);
}

}  // namespace

struct LocalServer::Client {
  std::uint32_t number = 0;
  LocalPeer peer;
  UniqueFd socket;
  std::string job;                     // of its process
  std::optional<SlotMemory> memory;    // none before its hello
  std::vector<std::uint32_t> tracked;  // by slot: the serial that we know there, 0 none
};

LocalServer::LocalServer(EventLoop& loop, LocalServerOptions options, Metrics& metrics)
    : loop_(loop),
      options_(std::move(options)),
      refused_(metrics.MakeCounter("espalier_agent_local_refused_total",
                                   "Clients of the local API that were turned away")),
      client_count_(
          metrics.MakeGauge("espalier_agent_local_clients", "Programs connected to the local API")),
      silent_(options_.max_clients, options_.max_clients_of_user),
      connected_(options_.max_clients, options_.max_clients_of_user),
      flows_(options_.max_flows, options_.max_flows_of_user) {}

LocalServer::~LocalServer() {
  if (listener_) unlink(options_.path.c_str());
}

Result<std::unique_ptr<LocalServer>> LocalServer::Listen(EventLoop& loop,
                                                         LocalServerOptions options,
                                                         Metrics& metrics) {
  std::unique_ptr<LocalServer> server(new LocalServer(loop, std::move(options), metrics));
  Result<void> opened = server->Open();
  if (!opened) return Propagate(opened);
  return server;
}

Result<void> LocalServer::Open() {
  Result<UniqueFd> listener = ListenOnPath(options_.path);
  if (!listener) return Propagate(listener);
  listener_ = std::move(*listener);
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_ || !Watch(epoll_.get(), listener_.get(), kListenerTag)) {
    return Fail(ErrorCode::kInternal,
                fmt::format("{}: epoll: {}", options_.path, std::strerror(errno)));
  }
  return {};
}

void LocalServer::HandleReady() {
  std::array<epoll_event, kEventsPerTurn> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
    if (tag == kListenerTag) {
      Accept();
      continue;
    }
    const auto found = clients_.find(static_cast<std::uint32_t>(tag));
    if (found != clients_.end() && !HandleClient(*found->second)) Remove(*found->second);
  }
}

void LocalServer::Accept() {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    std::optional<UniqueFd> socket = AcceptCaller(listener_.get(), spare_);
    if (!socket) return;
    const auto peer = LocalPeerOf(socket->get());
    if (!peer || !MakeRoomForSilent(peer->user)) continue;
    auto client = std::make_unique<Client>();
    client->number = NextNumber();
    client->peer = *peer;
    if (!Watch(epoll_.get(), socket->get(), client->number)) continue;
    client->socket = std::move(*socket);
    clients_.emplace(client->number, std::move(client));
    silent_.Take(peer->user);
  }
}

// Numbers are used again after 2^32 clients: not the listener's, and none that is in use.
std::uint32_t LocalServer::NextNumber() {
  do {
    ++last_client_;
  } while (last_client_ == kListenerTag || clients_.contains(last_client_));
  return last_client_;
}

// The oldest one who is silent gives way: one of this user's where it is the user's limit.
bool LocalServer::MakeRoomForSilent(uid_t user) {
  const bool is_users_limit = !silent_.HasRoomFor(user);
  if (!is_users_limit && silent_.used() < options_.max_clients) return true;
  const auto oldest = std::ranges::find_if(clients_, [&](const auto& entry) {
    return !entry.second->memory && (!is_users_limit || entry.second->peer.user == user);
  });
  ESPALIER_CHECK(oldest != clients_.end(), "silent={}", silent_.used());
  refused_.Add();
  Remove(*oldest->second);
  return true;
}

bool LocalServer::HandleClient(Client& client) {
  bool woken = false;
  std::array<std::byte, 64> buffer;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    // With MSG_TRUNC the size is that of the message, so that longer ones are not taken for ours.
    const ssize_t size =
        recv(client.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (size <= 0) return false;
    const std::span message(buffer.data(),
                            std::min<std::size_t>(static_cast<std::size_t>(size), buffer.size()));
    if (!client.memory) {
      if (!HandleHello(client, message)) return false;
      continue;
    }
    std::uint32_t word = 0;
    if (message.size() == sizeof(word)) std::memcpy(&word, message.data(), sizeof(word));
    if (word != ESPALIER_LOCAL_WAKE) {
      return Reject(client, "no wake-up");
    }
    woken = true;
  }
  return !woken || ScanSlots(client);
}

bool LocalServer::HandleHello(Client& client, std::span<const std::byte> message) {
  espalier_local_hello hello{};
  if (message.size() == sizeof(hello)) std::memcpy(&hello, message.data(), sizeof(hello));
  if (hello.version != ESPALIER_LOCAL_VERSION) {
    Refuse(client.socket.get(), EPROTO);
    return Reject(client, "another version of the library");
  }
  if (!connected_.Take(client.peer.user)) {
    Refuse(client.socket.get(), EUSERS);
    return Reject(client, "too many clients, in all or of its user");
  }
  Result<SlotMemory> memory = SlotMemory::Make();
  if (!memory) {
    connected_.Give(client.peer.user);
    Refuse(client.socket.get(), ENOMEM);
    return Reject(client, memory.error().message);
  }
  silent_.Give(client.peer.user);
  client.memory.emplace(std::move(*memory));
  client.tracked.assign(ESPALIER_LOCAL_SLOTS, 0);
  // Once, at the start: the number of a process may be used again later.
  client.job = JobOfProcess(client.peer.process);
  client_count_.Set(static_cast<double>(connected_.used()));
  SendWelcome(client.socket.get(),
              {.version = ESPALIER_LOCAL_VERSION,
               .status = 0,
               .client = client.number,
               .slot_count = ESPALIER_LOCAL_SLOTS},
              client.memory->fd());
  return true;
}

bool LocalServer::ScanSlots(Client& client) {
  EraseFlows([&client](const Home& home) {
    return home.client == &client && client.memory->Owner(home.slot) != home.serial;
  });
  // Serials are given in order, but slots are not: those of one scan are sorted first.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> opened;  // serial, slot
  const std::uint32_t used = client.memory->UsedSlots();
  for (std::uint32_t slot = 0; slot < used; ++slot) {
    const std::uint32_t owner = client.memory->Owner(slot);
    if (owner != 0 && owner != client.tracked[slot]) opened.emplace_back(owner, slot);
  }
  std::sort(opened.begin(), opened.end());
  for (const auto& [serial, slot] : opened) {
    if (!OpenFlow(client, slot, serial)) return false;
  }
  return true;
}

bool LocalServer::OpenFlow(Client& client, std::uint32_t slot, std::uint32_t serial) {
  // Beyond its user's share, or all, a flow stays on ECMP, unseen.
  if (samples_.size() >= options_.max_flows || !flows_.HasRoomFor(client.peer.user)) return true;
  Result<FlowSample> sample = ReadFlowDescription(client.memory->ReadDescription(slot));
  if (client.memory->Owner(slot) != serial) return true;  // changed hands: a wake-up follows
  const wire::LocalFlowId id(std::uint64_t{client.number} << 32 | serial);
  if (sample && Find(id)) {
    sample = Fail(ErrorCode::kAlreadyExists, fmt::format("serial {} in two slots", serial));
  }
  if (!sample) return Reject(client, sample.error().message);
  sample->id = id;
  sample->kept = client.memory->ReadKept(slot, serial);
  sample->kept.flow = id;
  sample->first_seen = loop_.Now();
  if (sample->job.empty()) sample->job = client.job;
  const auto at =
      std::lower_bound(samples_.begin(), samples_.end(), sample->id,
                       [](const FlowSample& s, wire::LocalFlowId i) { return s.id < i; });
  homes_.insert(homes_.begin() + (at - samples_.begin()), Home{&client, slot, serial});
  samples_.insert(at, std::move(*sample));
  flows_.Take(client.peer.user);
  client.tracked[slot] = serial;
  NotifyChange();
  return true;
}

bool LocalServer::Reject(const Client& client, std::string_view cause) {
  refused_.Add();
  if (loop_.Now() >= next_warning_) {
    next_warning_ = loop_.Now() + kWarningInterval;
    Log(LogLevel::kWarning, "event=local_client_dropped client={} cause=\"{}\"", client.number,
        cause);
  }
  return false;
}

void LocalServer::Remove(Client& client) {
  EraseFlows([&client](const Home& home) { return home.client == &client; });
  (client.memory ? connected_ : silent_).Give(client.peer.user);
  clients_.erase(client.number);
  client_count_.Set(static_cast<double>(connected_.used()));
}

void LocalServer::EraseFlows(const std::function<bool(const Home&)>& ended) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    if (ended(homes_[i])) {
      homes_[i].client->tracked[homes_[i].slot] = 0;
      flows_.Give(homes_[i].client->peer.user);
      continue;
    }
    if (kept != i) {
      homes_[kept] = homes_[i];
      samples_[kept] = std::move(samples_[i]);
    }
    ++kept;
  }
  if (kept == homes_.size()) return;
  homes_.resize(kept);
  samples_.resize(kept);
  NotifyChange();
}

void LocalServer::OnChange(std::function<void()> callback) { on_change_ = std::move(callback); }

void LocalServer::NotifyChange() {
  if (!on_change_ || pending_change_) return;
  pending_change_ = loop_.After(Duration::zero(), [this] {
    pending_change_.reset();
    if (on_change_) on_change_();
  });
}

std::span<const FlowSample> LocalServer::Flows() {
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const SlotMemory::Progress progress = homes_[i].client->memory->ReadProgress(homes_[i].slot);
    // The slot has changed hands: what it says is not of this flow, which its wake-up will end.
    if (progress.owner != homes_[i].serial) continue;
    FlowSample& sample = samples_[i];
    sample.source_port = progress.source_port;
    sample.remaining_bytes = progress.remaining_bytes;
    sample.outstanding_bytes = progress.outstanding_bytes;
    sample.sent_bytes = progress.sent_bytes;
    sample.retries = progress.retries;
    sample.rtt_us = progress.rtt_us;
    if (sample.max_paths > 1) sample.ports = homes_[i].client->memory->ReadPorts(homes_[i].slot);
  }
  return samples_;
}

Result<std::size_t> LocalServer::Find(wire::LocalFlowId flow) const {
  const auto at =
      std::lower_bound(samples_.begin(), samples_.end(), flow,
                       [](const FlowSample& s, wire::LocalFlowId i) { return s.id < i; });
  if (at == samples_.end() || at->id != flow) {
    return Fail(ErrorCode::kNotFound, fmt::format("no flow {}", flow.value()));
  }
  return static_cast<std::size_t>(at - samples_.begin());
}

Result<void> LocalServer::Apply(const wire::PathSet& paths) {
  Result<std::size_t> index = Find(paths.flow);
  if (!index) return Propagate(index);
  if (paths.paths.size() > ESPALIER_MAX_PATHS) {
    return Fail(ErrorCode::kUnsupported, fmt::format("more than {} paths", ESPALIER_MAX_PATHS));
  }
  for (const wire::FlowPath& path : paths.paths) {
    if (!path.encoding.empty()) {
      return Fail(ErrorCode::kUnsupported, "programs choose source ports, nothing else");
    }
  }
  const Home& home = homes_[*index];
  home.client->memory->WritePaths(home.slot, home.serial, paths);
  samples_[*index].kept = {};
  const std::uint32_t wake = ESPALIER_LOCAL_WAKE;
  // A full queue means that earlier wake-ups are still unread.
  (void)send(home.client->socket.get(), &wake, sizeof(wake), MSG_DONTWAIT | MSG_NOSIGNAL);
  return {};
}

Result<void> LocalServer::Clear(wire::LocalFlowId flow) {
  wire::PathSet none;
  none.flow = flow;
  return Apply(none);
}

}  // namespace espalier::agent
