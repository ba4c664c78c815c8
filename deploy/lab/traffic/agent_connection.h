#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "agent/local/espalier_agent.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/loop/asio_event_loop.h"
#include "deploy/lab/workload/workload.h"

namespace espalier::traffic {

// A flow that is announced to the agent, which may steer it. Without an agent it gets no ports.
// Thread safety: the loop's thread.
class SteeredFlow {
 public:
  SteeredFlow() = default;
  explicit SteeredFlow(espalier_flow* flow) : flow_(flow) {}

  // Reads the current path set; cheap if it has not changed.
  void Refresh();
  // Whether an agent knows the flow and has not decided anything about it yet.
  bool IsUndecided() const { return flow_ && version_ == 0; }
  // The ports that the agent has chosen, one per path; empty: plain ECMP.
  std::span<const std::uint16_t> ports() const { return ports_; }
  // How much of the flow each of them is to carry, in proportion to the others.
  std::span<const std::uint16_t> weights() const { return weights_; }
  // True if they were chosen because the path of an earlier port is dead.
  bool is_path_dead() const { return path_dead_; }
  // The rate limit of the flow over all its paths together, in bits per second; 0: no limit.
  std::uint64_t max_rate_bps() const { return max_rate_bps_; }

  void Report(std::int64_t remaining, std::int64_t outstanding, std::int64_t sent,
              std::uint16_t source_port);
  void ReportTransport(std::uint32_t retries, std::uint32_t rtt_us);
  // The progress of one connection of a flow with several.
  struct PathProgress {
    std::uint16_t source_port = 0;
    std::int64_t outstanding = 0;
    std::int64_t sent = 0;
    std::uint32_t retries = 0;
  };
  void ReportPaths(std::span<const PathProgress> paths);
  void Close();

 private:
  struct Closer {
    void operator()(espalier_flow* flow) const { espalier_flow_close(flow); }
  };

  std::unique_ptr<espalier_flow, Closer> flow_;
  std::uint64_t version_ = 0;
  std::vector<std::uint16_t> ports_;
  std::vector<std::uint16_t> weights_;
  bool path_dead_ = false;
  std::uint64_t max_rate_bps_ = 0;
};

// The connection to this host's agent.
class AgentConnection {
 public:
  // Connects to the socket $ESPALIER_AGENT_SOCKET. Calls `on_news` when any flow's path set may
  // have changed. Errors: kUnavailable without an agent.
  static Result<std::unique_ptr<AgentConnection>> Connect(io::AsioEventLoop& loop,
                                                          std::function<void()> on_news);
  ~AgentConnection();

  // Flows must be closed before this is destroyed.
  SteeredFlow Open(const WorkloadFlow& plan, const IpAddress& source, const IpAddress& destination,
                   std::uint16_t source_port);

 private:
  AgentConnection() = default;

  espalier_agent* agent_ = nullptr;
  TimerPtr watch_;
};

}  // namespace espalier::traffic
