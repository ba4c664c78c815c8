#include "agent/local/plan_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "agent/local/plan_protocol.h"
#include "common/base/message_socket.h"

namespace espalier::agent {
namespace {

constexpr int kEventsPerTurn = 64;
constexpr std::size_t kMostClients = 1'024;
// In the order of program::CollectiveKind, as programs count.
constexpr std::array kCollectiveNames = {"allreduce", "allgather", "reduce_scatter",
                                         "reduce",    "broadcast", "alltoall",
                                         "alltonext", "barrier",   "custom"};

Error SystemError(const std::string& what) {
  return {ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno))};
}

bool Watch(int epoll, int fd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = tag;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// Text that ends with a zero within its field; none else.
template <std::size_t size>
std::string TextOf(const char (&field)[size]) {
  const auto* const end = std::find(field, field + size, '\0');
  return end == field + size ? std::string() : std::string(field, end);
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
  std::string ports;
  for (const wire::PeerPorts& peer : plan.peers) {
    if (peer.rank == 0) {
      std::memcpy(header.first_address, peer.address.bytes().data(), sizeof(header.first_address));
      header.first_listen_port = peer.destination_port;
    }
    for (std::size_t i = 0; i < peer.source_ports.size(); ++i) {
      const PlanFilePort port{peer.rank, peer.channels[i], peer.source_ports[i]};
      ports.append(reinterpret_cast<const char*>(&port), sizeof(port));
      ++header.port_count;
    }
  }
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + ports + plan.program;
}

Result<UniqueFd> MakeFile(std::string_view bytes) {
  UniqueFd file(memfd_create("espalier-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return tl::unexpected<Error>(SystemError("memfd_create"));
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written <= 0) return tl::unexpected<Error>(SystemError("the memory of a plan"));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) !=
      0) {
    return tl::unexpected<Error>(SystemError("sealing"));
  }
  return file;
}

}  // namespace

PlanServer::PlanServer(std::string path, Metrics& metrics)
    : path_(std::move(path)),
      refused_(metrics.MakeCounter("espalier_agent_plan_clients_refused_total",
                                   "Programs that asked for plans in a wrong way")) {}

PlanServer::~PlanServer() {
  if (listener_) unlink(path_.c_str());
}

Result<std::unique_ptr<PlanServer>> PlanServer::Listen(const std::string& path, Metrics& metrics) {
  std::unique_ptr<PlanServer> server(new PlanServer(path, metrics));
  Result<void> opened = server->Open();
  if (!opened) return Propagate(opened);
  return server;
}

Result<void> PlanServer::Open() {
  Result<UniqueFd> listener = ListenOnPath(path_);
  if (!listener) return Propagate(listener);
  listener_ = std::move(*listener);
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_ || !Watch(epoll_.get(), listener_.get(), 0)) {
    return tl::unexpected<Error>(SystemError(path_));
  }
  return {};
}

void PlanServer::HandleReady() {
  std::array<epoll_event, kEventsPerTurn> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
    if (tag == 0) {
      Accept();
      continue;
    }
    const auto client = clients_.find(tag);
    if (client != clients_.end() && !Read(client->second)) clients_.erase(client);
  }
}

void PlanServer::Accept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  if (clients_.size() >= kMostClients || !Watch(epoll_.get(), socket.get(), last_client_ + 1)) {
    refused_.Add();
    return;
  }
  clients_[++last_client_].socket = std::move(socket);
}

bool PlanServer::Read(Client& client) {
  std::array<std::byte, 1'024> message;
  const ssize_t size =
      recv(client.socket.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (size <= 0) return false;
  const auto bytes = static_cast<std::size_t>(size);
  const bool is_right = client.has_asked ? HandleReport(client, message.data(), bytes)
                                         : HandleRequest(client, message.data(), bytes);
  if (!is_right) refused_.Add();
  return is_right;
}

bool PlanServer::HandleRequest(Client& client, const void* message, std::size_t size) {
  PlanRequest request;
  if (size != sizeof(request)) return false;
  std::memcpy(&request, message, sizeof(request));
  const std::string job = TextOf(request.job);
  if (request.magic != kPlanMagic || request.version != kPlanVersion || job.empty()) return false;
  client.rank = {job, request.rank};
  client.has_asked = true;
  const auto plan = plans_.find(client.rank);
  return plan == plans_.end() || Notify(client, &plan->second);
}

bool PlanServer::HandleReport(const Client& client, const void* message, std::size_t size) {
  PlanReport report;
  if (size != sizeof(report)) return false;
  std::memcpy(&report, message, sizeof(report));
  if (report.magic != kPlanMagic || report.collective >= kCollectiveNames.size()) return false;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53U;
  if (report.bytes > kMost || report.duration_us > kMost / 1'000) return false;
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

void PlanServer::SetPlan(const wire::RankPlan& plan) {
  const Rank rank(plan.job, plan.rank);
  const PlanFile* news = nullptr;
  if (plan.program.empty()) {
    plans_.erase(rank);
  } else {
    const std::string bytes = MakeBytes(plan);
    Result<UniqueFd> file = MakeFile(bytes);
    if (!file) return;  // no memory: programs stay with the plan before
    PlanFile& kept = plans_[rank];
    kept = {std::move(*file), bytes.size()};
    news = &kept;
  }
  std::erase_if(clients_, [&](const auto& entry) {
    return entry.second.has_asked && entry.second.rank == rank && !Notify(entry.second, news);
  });
}

// A program that reads none of its notices loses its connection.
bool PlanServer::Notify(const Client& client, const PlanFile* file) {
  PlanNotice notice;
  notice.bytes = file != nullptr ? file->bytes : 0;
  return SendMessage(client.socket.get(), &notice, sizeof(notice),
                     file != nullptr ? file->file.get() : -1);
}

}  // namespace espalier::agent
