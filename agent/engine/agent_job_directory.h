#pragma once

#include <string>

#include "collective/runtime/offload/job_directory.h"

namespace espalier::engine {

// Gets the rank plans of jobs from the host's agent, on behalf of the programs that want to take
// part in them. The agent gives a rank plan only to its owner, and lets the user of the offload
// service ask for others (agent/local/rank_plan_server.h).
// Thread safety: any thread.
class AgentJobDirectory : public runtime::JobDirectory {
 public:
  // agent_socket: that of the agent's local API.
  explicit AgentJobDirectory(std::string agent_socket) : agent_socket_(std::move(agent_socket)) {}

  Result<runtime::GroupJoinInfo> Find(const runtime::JobRank& rank, uid_t user,
                                      std::chrono::milliseconds patience) override;

 private:
  const std::string agent_socket_;
};

}  // namespace espalier::engine
