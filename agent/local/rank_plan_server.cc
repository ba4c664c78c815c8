#include "agent/local/rank_plan_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "agent/local/rank_plan_protocol.h"
#include "common/base/log.h"
#include "common/os/message_socket.h"

namespace espalier::agent {
namespace {

constexpr Duration kWarningInterval = std::chrono::seconds(1);
// In the order of program::CollectiveKind, whose numbers programs send.
constexpr std::array kCollectiveNames = {"allreduce", "allgather", "reduce_scatter",
                                         "reduce",    "broadcast", "alltoall",
                                         "alltonext", "barrier",   "custom"};

Error SystemError(const std::string& what) {
  return {ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno))};
}

// Returns the text of a zero-terminated field; "" if it has no terminator.
template <std::size_t size>
std::string TextOf(const char (&field)[size]) {
  const auto* const end = std::find(field, field + size, '\0');
  return end == field + size ? std::string() : std::string(field, end);
}

// Names are logged unchanged, so they must be printable.
bool IsName(const std::string& job) {
  return !job.empty() && std::ranges::all_of(job, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

std::string_view BytesOf(const IpAddress& address) {
  return {reinterpret_cast<const char*>(address.bytes().data()), address.bytes().size()};
}

// The connections to a peer that have a source port or NICs of their own.
std::string MakeConnections(const wire::PeerPorts& peer) {
  std::map<std::uint32_t, PlanFilePort> by_channel;
  const auto at = [&](std::uint32_t channel) -> PlanFilePort& {
    PlanFilePort& connection = by_channel[channel];
    connection.peer = peer.rank;
    connection.channel = channel;
    return connection;
  };
  for (std::size_t i = 0; i < peer.source_ports.size(); ++i) {
    at(peer.channels[i]).port = peer.source_ports[i];
  }
  for (const wire::ConnectionNics& nics : peer.connections) {
    PlanFilePort& connection = at(nics.channel);
    connection.has_nics = 1;
    std::ranges::copy(nics.source.bytes(), connection.source);
    std::ranges::copy(nics.destination.bytes(), connection.destination);
  }
  std::string bytes;
  for (const auto& [channel, connection] : by_channel) {
    bytes.append(reinterpret_cast<const char*>(&connection), sizeof(connection));
  }
  return bytes;
}

std::string MakeBytes(const wire::RankPlan& plan) {
  PlanFileHeader header;
  header.plan_version = plan.version;
  header.rank = plan.rank;
  header.ranks = plan.ranks;
  header.listen_port = header.first_listen_port = plan.listen_port;
  header.offload = plan.offload ? 1 : 0;
  header.urgent = plan.urgent ? 1 : 0;
  header.verbs = plan.verbs ? 1 : 0;
  header.program_bytes = plan.program.size();
  std::memcpy(header.address, plan.address.bytes().data(), sizeof(header.address));
  std::memcpy(header.first_address, header.address, sizeof(header.address));
  if (plan.job_key.size() == sizeof(header.job_key)) {
    std::memcpy(header.job_key, plan.job_key.data(), sizeof(header.job_key));
    header.has_job_key = 1;
  }
  std::string addresses;
  header.address_count = plan.rank_addresses.size();
  for (const IpAddress& address : plan.rank_addresses) addresses += BytesOf(address);
  header.listen_address_count = plan.listen_addresses.size();
  for (const IpAddress& address : plan.listen_addresses) addresses += BytesOf(address);
  std::string ports;
  for (const wire::PeerPorts& peer : plan.peers) {
    if (peer.rank == 0) {
      std::memcpy(header.first_address, peer.address.bytes().data(), sizeof(header.first_address));
      header.first_listen_port = peer.destination_port;
    }
    ports += MakeConnections(peer);
  }
  header.port_count = ports.size() / sizeof(PlanFilePort);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + addresses + ports +
         plan.program;
}

Result<UniqueFd> MakeFile(std::string_view bytes) {
  UniqueFd file(memfd_create("espalier-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return tl::unexpected<Error>(SystemError("memfd_create"));
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written <= 0) return tl::unexpected<Error>(SystemError("writing a rank plan to memory"));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) !=
      0) {
    return tl::unexpected<Error>(SystemError("sealing"));
  }
  return file;
}

}  // namespace

RankPlanServer::RankPlanServer(EventLoop& loop, RankPlanServerOptions options, Metrics& metrics)
    : loop_(loop),
      options_(std::move(options)),
      refused_(metrics.MakeCounter("espalier_agent_plan_clients_refused_total",
                                   "Programs refused because of a malformed request, another "
                                   "user's rank plan, or a limit")),
      dropped_reports_(metrics.MakeCounter("espalier_agent_plan_reports_dropped_total",
                                           "Collective reports dropped because the program sent "
                                           "too many or has no rank plan")),
      callers_({options_.max_clients, options_.max_clients_of_user},
               {.on_readable = [this](auto& caller) { return Read(caller); },
                .on_gone = [this](const auto& caller) { Forget(caller); },
                .on_refused = [this] { refused_.Add(); }}),
      users_(loop, options_.background, options_.look_up_user) {
  users_.OnAnswer([this](const std::string& user) {
    ServeAll([&](const Client& client) {
      return !client.has_plan && ranks_.at(client.rank).user == user;
    });
  });
}

Result<std::unique_ptr<RankPlanServer>> RankPlanServer::Listen(EventLoop& loop,
                                                               RankPlanServerOptions options,
                                                               Metrics& metrics) {
  std::unique_ptr<RankPlanServer> server(new RankPlanServer(loop, std::move(options), metrics));
  Result<void> opened = server->callers_.Listen(server->options_.path);
  if (!opened) return Propagate(opened);
  return server;
}

void RankPlanServer::Forget(const MessageServer::Caller& caller) {
  const auto client = clients_.find(caller.number);
  if (client == clients_.end()) return;
  Leave(client->second.rank);
  clients_.erase(client);
}

// Counts that a client of the rank has gone, and forgets a rank without a plan and clients.
void RankPlanServer::Leave(const Name& name) {
  const auto found = ranks_.find(name);
  if (found == ranks_.end()) return;
  Rank& rank = found->second;
  if (--rank.clients == 0 && !rank.plan) ranks_.erase(found);
}

bool RankPlanServer::Read(MessageServer::Caller& caller) {
  std::array<std::byte, 1'024> message;
  const ssize_t size =
      recv(caller.socket.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (size <= 0) return false;
  const auto bytes = static_cast<std::size_t>(size);
  const bool is_right = caller.is_admitted
                            ? HandleReport(clients_.at(caller.number), message.data(), bytes)
                            : HandleRequest(caller, message.data(), bytes);
  if (!is_right) refused_.Add();
  return is_right;
}

// The user id alone proves nothing, as a pod may have it, too.
bool RankPlanServer::IsEngine(const LocalPeer& caller) const {
  return caller.user == options_.engine_user && caller.container.empty();
}

// Decides whether a client may get the rank's plan. The first user that asks for a plan without a
// named user becomes its owner, except whoever gets every plan.
RankPlanServer::Right RankPlanServer::RightOf(const Client& client, Rank& rank) {
  const LocalPeer& caller = client.caller.peer;
  const bool asks_for_itself = client.asks_for == caller.user;
  if (caller.controls_host && asks_for_itself) return Right::kYes;
  if (!asks_for_itself && !caller.controls_host && !rank.offload) return Right::kNotOffloaded;
  if (!rank.owner && rank.user.empty()) rank.owner = client.asks_for;
  if (!rank.owner) {
    const JobUsers::Found found = users_.Find(rank.user);
    if (found.is_pending) return Right::kNotKnownYet;
    rank.owner = found.number;
  }
  if (rank.owner != client.asks_for) return Right::kNo;
  if (rank.container != client.container &&
      (!rank.container || !IsInUseBy(client.rank, *rank.container))) {
    rank.container = client.container;
  }
  return rank.container == client.container ? Right::kYes : Right::kNo;
}

bool RankPlanServer::IsInUseBy(const Name& rank, const std::string& container) const {
  return std::ranges::any_of(clients_, [&](const auto& entry) {
    const Client& client = entry.second;
    return client.has_plan && client.rank == rank && client.container == container;
  });
}

bool RankPlanServer::Serve(Client& client) {
  Rank& rank = ranks_.at(client.rank);
  const bool had_plan = std::exchange(client.has_plan, false);
  if (!rank.plan) return !had_plan || Notify(client, rank.plan);
  const Right right = RightOf(client, rank);
  if (right == Right::kNotKnownYet) return true;
  if (right != Right::kYes) {
    Refuse(client, right == Right::kNo ? kPlanOfOtherUser : kPlanWithoutOffload);
    return false;
  }
  client.has_plan = true;
  return Notify(client, rank.plan);
}

void RankPlanServer::Refuse(const Client& client, std::uint64_t why) {
  if (loop_.Now() >= next_warning_) {
    next_warning_ = loop_.Now() + kWarningInterval;
    const Rank& rank = ranks_.at(client.rank);
    Log(LogLevel::kWarning,
        "event=plan_refused job=\"{}\" rank={} user={} container=\"{}\" owner={} "
        "owner_container=\"{}\" offload={}",
        client.rank.first, client.rank.second, client.asks_for, client.container,
        rank.owner ? std::to_string(*rank.owner) : rank.user, rank.container.value_or(""),
        rank.offload);
  }
  const PlanNotice notice = {.bytes = why};
  (void)SendMessage(client.caller.socket.get(), &notice, sizeof(notice));
}

// Serves all clients that have made a request and for which `is_meant` holds.
void RankPlanServer::ServeAll(const std::function<bool(const Client&)>& is_meant) {
  for (auto next = clients_.begin(); next != clients_.end();) {
    Client& client = (next++)->second;
    if (!is_meant(client) || Serve(client)) continue;
    refused_.Add();
    callers_.Remove(client.caller.number);
  }
}

bool RankPlanServer::HandleRequest(MessageServer::Caller& caller, const void* message,
                                   std::size_t size) {
  PlanRequest request;
  if (size != sizeof(request) && size != kShortPlanRequest) return false;
  std::memcpy(&request, message, size);
  const std::string job = TextOf(request.job);
  if (request.magic != kPlanMagic || request.version != kPlanVersion || !IsName(job)) return false;
  const LocalPeer& peer = caller.peer;
  const uid_t user = request.user_and_one == 0 ? peer.user : request.user_and_one - 1;
  const bool may_ask = user == peer.user || peer.controls_host || IsEngine(peer);
  if (!may_ask || !callers_.Admit(caller)) return false;
  const bool names_program = user != peer.user && request.process != 0;
  const auto [client, _] = clients_.try_emplace(
      caller.number,
      Client{.caller = caller,
             .rank = {job, request.rank},
             .asks_for = user,
             .container = names_program ? peers_.ContainerOf(request.process) : peer.container,
             .reports = options_.report_burst,
             .reports_since = loop_.Now()});
  ++ranks_[client->second.rank].clients;
  return Serve(client->second);
}

// A token bucket: one token for each interval that has passed, at most a burst.
bool RankPlanServer::MayReport(Client& client) {
  const TimePoint now = loop_.Now();
  const std::int64_t passed = (now - client.reports_since) / options_.report_interval;
  client.reports_since += passed * options_.report_interval;
  client.reports = std::min(options_.report_burst, client.reports + passed);
  if (client.reports == 0) return false;
  --client.reports;
  return true;
}

bool RankPlanServer::HandleReport(Client& client, const void* message, std::size_t size) {
  PlanReport report;
  if (size != sizeof(report)) return false;
  std::memcpy(&report, message, sizeof(report));
  if (report.magic != kPlanMagic || report.collective >= kCollectiveNames.size()) return false;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53U;
  if (report.bytes > kMost || report.duration_us > kMost / 1'000) return false;
  if (!MayReport(client) || !client.has_plan) {
    dropped_reports_.Add();
    return true;
  }
  if (!on_report_) return true;
  on_report_({.job = client.rank.first,
              .rank = client.rank.second,
              .sequence = report.sequence,
              .collective = kCollectiveNames[report.collective],
              .bytes = report.bytes,
              .duration_us = report.duration_us,
              .error = TextOf(report.error)});
  return true;
}

void RankPlanServer::SetPlan(const wire::RankPlan& plan) {
  const Name name(plan.job, plan.rank);
  std::optional<PlanFile> file;
  if (!plan.program.empty()) {
    const std::string bytes = MakeBytes(plan);
    Result<UniqueFd> made = MakeFile(bytes);
    if (!made) return;  // out of memory: programs keep the previous plan
    file = PlanFile{std::move(*made), bytes.size()};
  }
  Rank& rank = ranks_[name];
  if (!file || plan.user != rank.user) {
    rank.owner.reset();
    rank.container.reset();
  }
  rank.offload = file && plan.offload;
  rank.user = file ? plan.user : std::string();
  rank.plan = std::move(file);
  ServeAll([&](const Client& client) { return client.rank == name; });
  const auto left = ranks_.find(name);
  if (left != ranks_.end() && !left->second.plan && left->second.clients == 0) ranks_.erase(left);
}

// A program that does not read its notices is disconnected.
bool RankPlanServer::Notify(const Client& client, const std::optional<PlanFile>& plan) {
  PlanNotice notice;
  notice.bytes = plan ? plan->bytes : 0;
  return SendMessage(client.caller.socket.get(), &notice, sizeof(notice),
                     plan ? plan->file.get() : -1);
}

}  // namespace espalier::agent
