#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "collective/client/agent_flows.h"
#include "collective/runtime/offload/job_directory.h"

namespace espalier::engine {

// Gets the rank plans of jobs from the host's agent, on behalf of the programs that want to take
// part in them. The agent gives a rank plan only to its owner, and lets the user of the offload
// service ask for others (agent/local/rank_plan_server.h).
//
// The connections of their plans are flows that the agent knows, for kMaxJobs jobs at a time: as
// long as a rank of the job is here, and in ranks that join after an agent has gone for good, with
// the next agent.
// Thread safety: any thread. A place must not outlive the directory.
class AgentJobDirectory : public runtime::JobDirectory {
 public:
  // agent_socket: that of the agent's local API.
  explicit AgentJobDirectory(std::string agent_socket) : agent_socket_(std::move(agent_socket)) {}

  Result<runtime::JobPlace> Find(const runtime::JobRank& rank, const runtime::JobProgram& program,
                                 std::chrono::milliseconds patience) override;
  // Follows restarts of the agent, and forgets jobs that are over. To be called at least once a
  // second; returns at once.
  void Dispatch();

 private:
  static constexpr std::size_t kMaxJobs = 64;

  // Null: no agent wants to know, or there are too many jobs.
  std::shared_ptr<client::AgentFlows> FlowsOf(const std::string& job);

  const std::string agent_socket_;
  std::mutex mutex_;
  // By job; guarded. Places keep them.
  std::map<std::string, std::weak_ptr<client::AgentFlows>> flows_;
};

}  // namespace espalier::engine
