#include "agent/engine/agent_job_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/local/rank_plan_client.h"
#include "collective/client/group_join_info.h"

namespace espalier::engine {
namespace {

// The plans of a rank as its agent tells them. It gets all of them in the order in which the
// program does, so it knows what the program offers, and need not believe it.
class PlansOfAgent : public runtime::PlanDirectory {
 public:
  PlansOfAgent(std::unique_ptr<agent::RankPlanClient> client, const agent::LocalRankPlan& first)
      : client_(std::move(client)) {
    Keep(first);
  }

  Result<runtime::PlanAddresses> AddressesOf(std::uint64_t generation,
                                             std::chrono::milliseconds patience) override {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (true) {
      const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      const auto found = addresses_.find(generation);
      const bool is_known = found != addresses_.end();
      // Takes what has come in any case: the agent leaves a client that does not read.
      auto plan = client_->Wait(is_known ? std::chrono::milliseconds(0)
                                         : std::max(rest, std::chrono::milliseconds(0)));
      if (plan && *plan) {
        Keep(**plan);
        continue;
      }
      if (is_known) return found->second;
      if (!plan) return Propagate(plan);
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("the agent has no plan {} for this rank", generation));
    }
  }

 private:
  static constexpr std::size_t kMostPlans = 8;

  void Keep(const agent::LocalRankPlan& plan) {
    addresses_[plan.version] = client::AddressesOf(plan);
    if (addresses_.size() > kMostPlans) addresses_.erase(addresses_.begin());
  }

  std::unique_ptr<agent::RankPlanClient> client_;
  std::map<std::uint64_t, runtime::PlanAddresses> addresses_;  // by generation
};

}  // namespace

Result<runtime::JobPlace> AgentJobDirectory::Find(const runtime::JobRank& rank, uid_t user,
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
  runtime::JobPlace place{.join = client::MakeGroupJoinInfo(**plan, rank.job, rank.number),
                          .plans = std::make_unique<PlansOfAgent>(std::move(*client), **plan)};
  place.join.options.observer = FlowsOf(rank.job);
  return place;
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
