#include "agent/local/local_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "agent/local/flow_description.h"
#include "agent/local/process_job.h"
#include "common/base/log.h"

namespace espalier::agent {
namespace {

constexpr int kMessagesPerTurn = 64;
constexpr Duration kWarningInterval = std::chrono::seconds(1);

void SendWelcome(int socket, const espalier_local_welcome& welcome, std::optional<int> memory) {
  // If the client has gone, its hang-up will be noticed.
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

LocalServer::LocalServer(EventLoop& loop, LocalServerOptions options, Metrics& metrics)
    : loop_(loop),
      options_(std::move(options)),
      refused_(metrics.MakeCounter("espalier_agent_local_refused_total",
                                   "Clients of the local API that were refused or disconnected")),
      client_count_(
          metrics.MakeGauge("espalier_agent_local_clients", "Programs connected to the local API")),
      callers_({options_.max_clients, options_.max_clients_of_user},
               {.on_readable = [this](auto& caller) { return HandleMessages(caller); },
                .on_gone = [this](const auto& caller) { Forget(caller); },
                .on_refused = [this] { refused_.Add(); }}),
      flows_(options_.max_flows, options_.max_flows_of_user) {}

Result<std::unique_ptr<LocalServer>> LocalServer::Listen(EventLoop& loop,
                                                         LocalServerOptions options,
                                                         Metrics& metrics) {
  std::unique_ptr<LocalServer> server(new LocalServer(loop, std::move(options), metrics));
  Result<void> opened = server->callers_.Listen(server->options_.path);
  if (!opened) return Propagate(opened);
  return server;
}

bool LocalServer::HandleMessages(MessageServer::Caller& caller) {
  bool woken = false;
  std::array<std::byte, 64> buffer;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    // MSG_TRUNC returns the size of the whole message, so that longer messages are recognised.
    const ssize_t size =
        recv(caller.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (size <= 0) return false;
    const std::span message(buffer.data(),
                            std::min<std::size_t>(static_cast<std::size_t>(size), buffer.size()));
    if (!caller.is_admitted) {
      if (!HandleHello(caller, message)) return false;
      continue;
    }
    std::uint32_t word = 0;
    if (message.size() == sizeof(word)) std::memcpy(&word, message.data(), sizeof(word));
    if (word != ESPALIER_LOCAL_WAKE) {
      return Reject(caller, "unexpected message instead of a wake-up");
    }
    woken = true;
  }
  return !woken || ScanSlots(clients_.at(caller.number));
}

bool LocalServer::HandleHello(MessageServer::Caller& caller, std::span<const std::byte> message) {
  espalier_local_hello hello{};
  if (message.size() == sizeof(hello)) std::memcpy(&hello, message.data(), sizeof(hello));
  if (hello.version != ESPALIER_LOCAL_VERSION) {
    Refuse(caller.socket.get(), EPROTO);
    return Reject(caller, "the program's libespalier-agent has another protocol version");
  }
  if (!callers_.Admit(caller)) {
    Refuse(caller.socket.get(), EUSERS);
    return Reject(caller, "too many clients, in total or of this user");
  }
  Result<SlotMemory> memory = SlotMemory::Make();
  if (!memory) {
    Refuse(caller.socket.get(), ENOMEM);
    return Reject(caller, memory.error().message);
  }
  // The job is read once, as another process may get the same number later.
  const auto [client, _] = clients_.try_emplace(
      caller.number, Client{.caller = caller,
                            .memory = std::move(*memory),
                            .job = JobOfProcess(caller.peer.process),
                            .tracked = std::vector<std::uint32_t>(ESPALIER_LOCAL_SLOTS)});
  client_count_.Set(static_cast<double>(callers_.admitted()));
  SendWelcome(caller.socket.get(),
              {.version = ESPALIER_LOCAL_VERSION,
               .status = 0,
               .client = caller.number,
               .slot_count = ESPALIER_LOCAL_SLOTS},
              client->second.memory.fd());
  return true;
}

bool LocalServer::ScanSlots(Client& client) {
  EraseFlows([&client](const Home& home) {
    return home.client == &client && client.memory.Owner(home.slot) != home.serial;
  });
  // Flows are opened in the order of their serials, which slots do not follow.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> opened;  // serial, slot
  const std::uint32_t used = client.memory.UsedSlots();
  for (std::uint32_t slot = 0; slot < used; ++slot) {
    const std::uint32_t owner = client.memory.Owner(slot);
    if (owner == 0 || owner == client.tracked[slot]) continue;
    const auto sample = ReadFlowDescription(client.memory.ReadDescription(slot));
    if (!sample || IsReported(*sample)) opened.emplace_back(owner, slot);
  }
  std::sort(opened.begin(), opened.end());
  MakeRoomForFlows(client.caller.peer.payer, opened.size());
  for (const auto& [serial, slot] : opened) {
    if (!OpenFlow(client, slot, serial)) return false;
  }
  return true;
}

void LocalServer::MakeRoomForFlows(BudgetOwner user, std::size_t count) {
  UserBudget after = flows_;
  std::map<BudgetOwner, std::size_t> kept;  // of users who give way
  for (; count > 0; --count) {
    if (after.Take(user)) continue;
    const std::optional<BudgetOwner> loser = after.GivesWayTo(user);
    if (!loser) break;
    after.Give(*loser);
    after.Take(user);
    kept[*loser] = after.UsedBy(*loser);
  }
  if (kept.empty()) return;
  EraseFlows([&kept](const Home& home) {
    const auto found = kept.find(home.client->caller.peer.payer);
    if (found == kept.end()) return false;
    if (found->second > 0) {
      --found->second;
      return false;
    }
    Write(home, {});
    return true;
  });
}

bool LocalServer::IsReported(const FlowSample& flow) const {
  return options_.has_flows(flow.source) && options_.has_flows(flow.destination);
}

bool LocalServer::OpenFlow(Client& client, std::uint32_t slot, std::uint32_t serial) {
  // Beyond the limits of its user or of all clients, a flow stays on plain ECMP, unreported.
  const BudgetOwner user = client.caller.peer.payer;
  if (samples_.size() >= options_.max_flows || !flows_.HasRoomFor(user)) return true;
  Result<FlowSample> sample = ReadFlowDescription(client.memory.ReadDescription(slot));
  if (client.memory.Owner(slot) != serial) return true;  // another flow's; a wake-up follows
  const wire::LocalFlowId id(std::uint64_t{client.caller.number} << 32 | serial);
  if (sample && Find(id)) {
    sample = Fail(ErrorCode::kAlreadyExists, fmt::format("serial {} is in two slots", serial));
  }
  if (!sample) return Reject(client.caller, sample.error().message);
  if (!IsReported(*sample)) return true;
  sample->id = id;
  sample->user = user;
  sample->announced.user = client.caller.peer.user;
  sample->kept = client.memory.ReadKept(slot, serial);
  sample->kept.flow = id;
  sample->first_seen = loop_.Now();
  if (sample->job.empty()) sample->job = client.job;
  const auto at =
      std::lower_bound(samples_.begin(), samples_.end(), sample->id,
                       [](const FlowSample& s, wire::LocalFlowId i) { return s.id < i; });
  homes_.insert(homes_.begin() + (at - samples_.begin()), Home{&client, slot, serial});
  samples_.insert(at, std::move(*sample));
  flows_.Take(user);
  client.tracked[slot] = serial;
  NotifyChange();
  return true;
}

bool LocalServer::Reject(const MessageServer::Caller& caller, std::string_view cause) {
  refused_.Add();
  if (loop_.Now() >= next_warning_) {
    next_warning_ = loop_.Now() + kWarningInterval;
    Log(LogLevel::kWarning, "event=local_client_dropped client={} cause=\"{}\"", caller.number,
        cause);
  }
  return false;
}

void LocalServer::Forget(const MessageServer::Caller& caller) {
  if (const auto client = clients_.find(caller.number); client != clients_.end()) {
    EraseFlows([&client](const Home& home) { return home.client == &client->second; });
    clients_.erase(client);
  }
  client_count_.Set(static_cast<double>(callers_.admitted()));
}

void LocalServer::EraseFlows(const std::function<bool(const Home&)>& ended) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    if (ended(homes_[i])) {
      homes_[i].client->tracked[homes_[i].slot] = 0;
      flows_.Give(homes_[i].client->caller.peer.payer);
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
    const SlotMemory::Progress progress = homes_[i].client->memory.ReadProgress(homes_[i].slot);
    // The slot belongs to another flow already; the wake-up that follows ends this one.
    if (progress.owner != homes_[i].serial) continue;
    FlowSample& sample = samples_[i];
    sample.source_port = progress.source_port;
    sample.remaining_bytes = progress.remaining_bytes;
    sample.outstanding_bytes = progress.outstanding_bytes;
    sample.sent_bytes = progress.sent_bytes;
    sample.retries = progress.retries;
    sample.rtt_us = progress.rtt_us;
    sample.wait = progress.wait;
    sample.edges = progress.edges;
    if (sample.max_paths > 1) sample.ports = homes_[i].client->memory.ReadPorts(homes_[i].slot);
  }
  return samples_;
}

Result<std::size_t> LocalServer::Find(wire::LocalFlowId flow) const {
  const auto at =
      std::lower_bound(samples_.begin(), samples_.end(), flow,
                       [](const FlowSample& s, wire::LocalFlowId i) { return s.id < i; });
  if (at == samples_.end() || at->id != flow) {
    return Fail(ErrorCode::kNotFound, fmt::format("flow {} is not open", flow.value()));
  }
  return static_cast<std::size_t>(at - samples_.begin());
}

Result<void> LocalServer::Apply(const wire::PathSet& paths) {
  Result<std::size_t> index = Find(paths.flow);
  if (!index) return Propagate(index);
  if (paths.paths.size() > ESPALIER_MAX_PATHS) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("programs take at most {} paths for a flow", ESPALIER_MAX_PATHS));
  }
  for (const wire::FlowPath& path : paths.paths) {
    if (!path.encoding.empty()) {
      return Fail(ErrorCode::kUnsupported,
                  "programs can only choose source ports (another path encoding was pushed)");
    }
  }
  Write(homes_[*index], paths);
  samples_[*index].kept = {};
  return {};
}

void LocalServer::Write(const Home& home, const wire::PathSet& paths) {
  home.client->memory.WritePaths(home.slot, home.serial, paths);
  const std::uint32_t wake = ESPALIER_LOCAL_WAKE;
  // A full queue means that earlier wake-ups are still unread.
  (void)send(home.client->caller.socket.get(), &wake, sizeof(wake), MSG_DONTWAIT | MSG_NOSIGNAL);
}

Result<void> LocalServer::Clear(wire::LocalFlowId flow) {
  wire::PathSet none;
  none.flow = flow;
  return Apply(none);
}

}  // namespace espalier::agent
