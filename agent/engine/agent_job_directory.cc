#include "agent/engine/agent_job_directory.h"

#include <fmt/format.h>

#include <utility>

#include "agent/local/rank_plan_client.h"
#include "collective/client/group_join_info.h"

namespace espalier::engine {

Result<runtime::GroupJoinInfo> AgentJobDirectory::Find(const runtime::JobRank& rank, uid_t user,
                                                       std::chrono::milliseconds patience) {
  auto client = agent::RankPlanClient::Connect(agent_socket_, rank.job, rank.rank, user);
  if (!client) return Propagate(client);
  auto plan = (*client)->Wait(patience);
  if (!plan) return Propagate(plan);
  if (!*plan) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no rank plan for rank {} of job {} on this host (`espalier "
                            "job list` shows the job's state)",
                            rank.rank, rank.job));
  }
  if (!(*plan)->offload) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("job {} does not use the offload service (start it with `espalier job "
                            "start --offload`)",
                            rank.job));
  }
  runtime::GroupJoinInfo info = client::MakeGroupJoinInfo(**plan, rank.job, rank.number);
  info.options.observer = FlowsOf(rank.job);
  return info;
}

transport::SendObserver* AgentJobDirectory::FlowsOf(const std::string& job) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = flows_.find(job);
    if (known != flows_.end()) return known->second.get();
    if (flows_.size() >= kMaxJobs) return nullptr;
  }
  auto made = std::make_unique<client::AgentFlows>(agent_socket_, job);  // may wait
  if (!made->is_connected()) return nullptr;
  const std::lock_guard lock(mutex_);
  return flows_.try_emplace(job, std::move(made)).first->second.get();
}

void AgentJobDirectory::Dispatch() {
  const std::lock_guard lock(mutex_);
  for (const auto& [job, flows] : flows_) flows->Dispatch();
}

}  // namespace espalier::engine
