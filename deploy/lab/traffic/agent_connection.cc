#include "deploy/lab/traffic/agent_connection.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/log.h"

namespace espalier::traffic {

void SteeredFlow::Refresh() {
  if (!flow_ || espalier_flow_version(flow_.get()) == version_) return;
  espalier_path_set paths{};
  espalier_flow_paths(flow_.get(), &paths);
  version_ = paths.version;
  path_dead_ = paths.reason == ESPALIER_REASON_PATH_DEAD;
  max_rate_bps_ = paths.max_rate_bps;
  ports_.clear();
  weights_.clear();
  for (std::uint32_t i = 0; i < paths.path_count; ++i) {
    if (paths.source_port[i] == 0) continue;
    ports_.push_back(paths.source_port[i]);
    weights_.push_back(std::max<std::uint16_t>(1, paths.weight[i]));
  }
}

void SteeredFlow::Report(std::int64_t remaining, std::int64_t outstanding, std::int64_t sent,
                         std::uint16_t source_port) {
  if (!flow_) return;
  espalier_flow_progress(flow_.get(), static_cast<std::uint64_t>(remaining),
                         static_cast<std::uint64_t>(outstanding), static_cast<std::uint64_t>(sent),
                         source_port);
}

void SteeredFlow::ReportTransport(std::uint32_t retries, std::uint32_t rtt_us) {
  if (flow_) espalier_flow_transport(flow_.get(), retries, rtt_us);
}

void SteeredFlow::ReportPaths(std::span<const PathProgress> paths) {
  if (!flow_) return;
  for (std::uint32_t i = 0; i < ESPALIER_MAX_PATHS; ++i) {
    const PathProgress path = i < paths.size() ? paths[i] : PathProgress{};
    espalier_flow_path_progress(flow_.get(), i, path.source_port,
                                static_cast<std::uint64_t>(path.outstanding),
                                static_cast<std::uint64_t>(path.sent), path.retries);
  }
}

void SteeredFlow::Close() { flow_.reset(); }

Result<std::unique_ptr<AgentConnection>> AgentConnection::Connect(io::AsioEventLoop& loop,
                                                                  std::function<void()> on_news) {
  std::unique_ptr<AgentConnection> steering(new AgentConnection);
  if (const int error = espalier_agent_connect(nullptr, &steering->agent_); error != 0) {
    return Fail(ErrorCode::kUnavailable, std::string("no agent answers: ") + std::strerror(-error));
  }
  steering->watch_ = loop.WatchReadable(
      espalier_agent_fd(steering->agent_), [raw = steering.get(), news = std::move(on_news)] {
        if (const int error = espalier_agent_dispatch(raw->agent_); error != 0) {
          Log(LogLevel::kWarning, "event=agent_gone error={}", -error);
          raw->watch_.reset();
        }
        news();
      });
  return steering;
}

AgentConnection::~AgentConnection() {
  watch_.reset();
  espalier_agent_close(agent_);
}

SteeredFlow AgentConnection::Open(const WorkloadFlow& plan, const IpAddress& source,
                                  const IpAddress& destination, std::uint16_t source_port) {
  espalier_flow_desc desc{};
  const std::size_t length = std::min(plan.job.size(), std::size_t{ESPALIER_JOB_BYTES - 1});
  std::copy_n(plan.job.data(), length, desc.job);
  std::copy(source.bytes().begin(), source.bytes().end(), desc.source);
  std::copy(destination.bytes().begin(), destination.bytes().end(), desc.destination);
  desc.protocol = plan.protocol == Protocol::kTcp ? IPPROTO_TCP : IPPROTO_UDP;
  desc.max_paths = static_cast<std::uint8_t>(plan.paths);
  desc.movable = 1;
  // By SO_MAX_PACING_RATE.
  desc.flags =
      plan.protocol == Protocol::kTcp ? ESPALIER_FLOW_KEEPS_RATE | ESPALIER_FLOW_KEEPS_WEIGHTS : 0;
  desc.destination_port = 4791;
  desc.source_port = source_port;
  desc.remaining_bytes = static_cast<std::uint64_t>(plan.announced_bytes);
  espalier_flow* flow = nullptr;
  if (const int error = espalier_flow_open(agent_, &desc, &flow); error != 0) {
    Log(LogLevel::kWarning, "event=flow_not_announced flow={} error={}", plan.id, -error);
    return SteeredFlow();
  }
  return SteeredFlow(flow);
}

}  // namespace espalier::traffic
