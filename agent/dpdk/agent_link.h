#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/local/espalier_agent.h"
#include "common/base/time/event_loop.h"

namespace espalier::dpdk {

// Connections to the agent of this host: as many as the flows need (each carries 1,024), made again
// when the agent comes back.
// Thread safety: one thread. Connecting waits for the agent's answer, up to 5 s; cores never wait.
class AgentLink {
 public:
  explicit AgentLink(std::string socket_path) : socket_path_(std::move(socket_path)) {}

  // Checks whether the agent is there, and connects if necessary. Returns false if the agent has
  // gone since the last look; then all opened flows are invalid and must not be used.
  bool Look(TimePoint now);
  bool IsConnected() const { return !connections_.empty(); }
  // Opens a flow; returns null if there is no agent, or it takes no more flows.
  espalier_flow* Open(const espalier_flow_desc& description);

 private:
  struct Close {
    void operator()(espalier_agent* agent) const { espalier_agent_close(agent); }
  };
  using Connection = std::unique_ptr<espalier_agent, Close>;
  static constexpr std::size_t kMaxConnections = 16;

  bool Connect();

  const std::string socket_path_;
  std::vector<Connection> connections_;
  TimePoint next_try_{};
};

}  // namespace espalier::dpdk
