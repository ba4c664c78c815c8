#include "agent/local/rank_plan_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "agent/local/espalier_agent.h"
#include "agent/local/rank_plan_protocol.h"
#include "common/os/message_socket.h"

namespace espalier::agent {
namespace {

constexpr std::uint64_t kMaxBytes = 16 << 20;

tl::unexpected<Error> Gone(const std::string& why) {
  return Fail(ErrorCode::kUnavailable, "the agent " + why);
}

Result<std::string> ReadAll(int file, std::uint64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t read =
        pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (read <= 0) return Gone("sent a rank plan that cannot be read");
    done += static_cast<std::size_t>(read);
  }
  return text;
}

IpAddress AddressOf(const std::uint8_t (&bytes)[16]) {
  IpAddress::Bytes address;
  std::copy(std::begin(bytes), std::end(bytes), address.begin());
  return IpAddress(address);
}

}  // namespace

std::string AgentSocket(const std::string& socket) {
  if (!socket.empty()) return socket;
  const char* named = std::getenv("ESPALIER_AGENT_SOCKET");
  return named != nullptr && *named != '\0' ? named : ESPALIER_AGENT_DEFAULT_SOCKET;
}

namespace {

// Takes `count` addresses from the front of the bytes. Requires that they are there.
std::vector<IpAddress> TakeAddresses(std::string_view& bytes, std::uint64_t count) {
  std::vector<IpAddress> addresses;
  for (std::uint64_t i = 0; i < count; ++i) {
    IpAddress::Bytes address;
    std::memcpy(&address, bytes.data(), sizeof(address));
    addresses.emplace_back(address);
    bytes.remove_prefix(sizeof(address));
  }
  return addresses;
}

}  // namespace

Result<LocalRankPlan> ParsePlanFile(std::string_view bytes) {
  const auto wrong = [] { return Fail(ErrorCode::kInvalidArgument, "malformed rank plan"); };
  PlanFileHeader header;
  if (bytes.size() < sizeof(header)) return wrong();
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  constexpr std::uint32_t kMaxRanks = 1 << 24;
  if (header.ranks > kMaxRanks || header.rank >= header.ranks) return wrong();
  const bool has_addresses = header.address_count != 0;
  if (has_addresses && header.address_count != header.ranks) return wrong();
  constexpr std::size_t kAddressBytes = sizeof(header.address);
  LocalRankPlan plan;
  if (header.address_count > bytes.size() / kAddressBytes) return wrong();
  plan.addresses = TakeAddresses(bytes, header.address_count);
  if (header.listen_address_count > bytes.size() / kAddressBytes) return wrong();
  plan.listen_addresses = TakeAddresses(bytes, header.listen_address_count);
  if (header.port_count > bytes.size() / sizeof(PlanFilePort) ||
      header.program_bytes != bytes.size() - header.port_count * sizeof(PlanFilePort)) {
    return wrong();
  }
  plan.version = header.plan_version;
  plan.rank = static_cast<int>(header.rank);
  plan.ranks = static_cast<int>(header.ranks);
  plan.address = AddressOf(header.address);
  plan.listen_port = header.listen_port;
  plan.first_address = AddressOf(header.first_address);
  plan.first_listen_port = header.first_listen_port;
  plan.offload = header.offload != 0;
  plan.urgent = header.urgent != 0;
  plan.verbs = header.verbs != 0;
  if (header.has_job_key != 0) plan.job_key = JobKey(std::to_array(header.job_key));
  for (std::uint64_t i = 0; i < header.port_count; ++i) {
    PlanFilePort port;
    std::memcpy(&port, bytes.data(), sizeof(port));
    bytes.remove_prefix(sizeof(port));
    if (port.peer >= header.ranks || port.channel >= kMaxRanks || port.port > UINT16_MAX) {
      return wrong();
    }
    LocalRankPlan::Port& added = plan.ports.emplace_back();
    added.peer = static_cast<int>(port.peer);
    added.channel = static_cast<int>(port.channel);
    added.port = static_cast<std::uint16_t>(port.port);
    if (port.has_nics == 0) continue;
    added.source = AddressOf(port.source);
    added.destination = AddressOf(port.destination);
  }
  plan.program = bytes;
  return plan;
}

Result<std::unique_ptr<RankPlanClient>> RankPlanClient::Connect(
    const std::string& socket, const std::string& job, int rank,
    const std::optional<Program>& program) {
  const std::string path = AgentSocket(socket) + kPlanSocketSuffix;
  PlanRequest request;
  if (job.empty() || job.size() >= sizeof(request.job) || rank < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("rank {} of job \"{}\": the rank must not be negative, and the job's "
                            "name must have 1 to 255 bytes",
                            rank, job));
  }
  std::memcpy(request.job, job.data(), job.size());
  request.rank = static_cast<std::uint32_t>(rank);
  if (program) {
    request.user_and_one = program->user + 1;
    request.process = program->process;
  }
  Result<UniqueFd> connection = ConnectToPath(path);
  if (!connection) return Propagate(connection);
  const std::size_t bytes = program ? sizeof(request) : kShortPlanRequest;
  if (!SendMessage(connection->get(), &request, bytes)) return Gone("has gone");
  return std::unique_ptr<RankPlanClient>(new RankPlanClient(std::move(*connection)));
}

Result<std::optional<LocalRankPlan>> RankPlanClient::Wait(std::chrono::milliseconds patience) {
  pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, static_cast<int>(patience.count())) <= 0) return std::nullopt;
  PlanNotice notice;
  const auto message = ReceiveMessage(socket_.get(), &notice, sizeof(notice), true);
  if (!message || message->bytes == 0) return Gone("has gone");
  if (message->bytes != sizeof(notice) || notice.magic != kPlanMagic ||
      notice.version != kPlanVersion) {
    return Fail(ErrorCode::kFailedPrecondition,
                "the agent has another version of the rank plan protocol (install agent and "
                "library of one release)");
  }
  if (notice.bytes == kPlanOfOtherUser) {
    return Fail(
        ErrorCode::kPermissionDenied,
        "the agent gives this rank's plan only to programs of another user or container: those of "
        "the user for whom the job was started (`espalier job start --user`), or else of the one "
        "that asked first (the agent's log names both)");
  }
  if (notice.bytes == kPlanWithoutOffload) {
    return Fail(ErrorCode::kNotFound,
                "the job does not use the offload service (start it with `espalier job start "
                "--offload`)");
  }
  if (notice.bytes == 0) return Gone("says that the job has ended");
  struct stat status {};
  if (!message->file || notice.bytes > kMaxBytes || fstat(message->file.get(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) != notice.bytes) {
    return Gone("sent no rank plan");
  }
  auto bytes = ReadAll(message->file.get(), notice.bytes);
  if (!bytes) return Propagate(bytes);
  auto plan = ParsePlanFile(*bytes);
  if (!plan) return Propagate(plan);
  return std::optional(std::move(*plan));
}

void RankPlanClient::Report(int collective, std::uint64_t sequence, std::uint64_t bytes,
                            std::chrono::microseconds duration, const std::string& error) {
  PlanReport report;
  report.collective = static_cast<std::uint32_t>(collective);
  report.sequence = sequence;
  report.bytes = bytes;
  report.duration_us = static_cast<std::uint64_t>(duration.count());
  error.copy(report.error, sizeof(report.error) - 1);
  static_cast<void>(send(socket_.get(), &report, sizeof(report), MSG_DONTWAIT | MSG_NOSIGNAL));
}

void RankPlanClient::Close() { ::shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace espalier::agent
