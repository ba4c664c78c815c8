#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "agent/local/espalier_agent.h"
#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/loop/asio_event_loop.h"
#include "deploy/lab/traffic/workload.h"

namespace espalier::traffic {

// A flow's line to the agent; one without an agent never hears of a port.
// Thread safety: the loop's thread.
class SteeredFlow {
 public:
  SteeredFlow() = default;
  explicit SteeredFlow(espalier_flow* flow) : flow_(flow) {}

  // Looks for news; cheap where there are none.
  void Refresh();
  // The ports that the agent has chosen, one a path; none: plain ECMP.
  std::span<const std::uint16_t> ports() const { return ports_; }
  // They were chosen because the path of one before is dead.
  bool is_path_dead() const { return path_dead_; }
  // What the flow may send over all its paths together, bits a second; 0: no limit.
  std::uint64_t max_rate_bps() const { return max_rate_bps_; }

  void Report(std::int64_t remaining, std::int64_t outstanding, std::int64_t sent,
              std::uint16_t source_port);
  void ReportTransport(std::uint32_t retries, std::uint32_t rtt_us);
  // Of the connections of a flow that has several.
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
  bool path_dead_ = false;
  std::uint64_t max_rate_bps_ = 0;
};

// The connection to this host's agent.
class AgentConnection {
 public:
  // The socket is that of $ESPALIER_AGENT_SOCKET. Calls `on_news` when any flow's path set may
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
