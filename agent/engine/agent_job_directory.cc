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
  PlansOfAgent(std::unique_ptr<agent::RankPlanClient> client, const agent::LocalRankPlan& first,
               std::shared_ptr<client::AgentFlows> flows)
      : client_(std::move(client)), flows_(std::move(flows)) {
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
  const std::shared_ptr<client::AgentFlows> flows_;            // kept for the rank's connections
  std::map<std::uint64_t, runtime::PlanAddresses> addresses_;  // by generation
};

}  // namespace

Result<runtime::JobPlace> AgentJobDirectory::Find(const runtime::JobRank& rank,
                                                  const runtime::JobProgram& program,
                                                  std::chrono::milliseconds patience) {
  using Program = agent::RankPlanClient::Program;
  auto client = agent::RankPlanClient::Connect(agent_socket_, rank.job, rank.rank,
                                               Program{program.user, program.process});
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
  std::shared_ptr<client::AgentFlows> flows = FlowsOf(rank.job);
  runtime::JobPlace place{.join = client::MakeGroupJoinInfo(**plan, rank.job, rank.number)};
  place.join.options.observer = flows.get();
  place.plans = std::make_unique<PlansOfAgent>(std::move(*client), **plan, std::move(flows));
  return place;
}

std::shared_ptr<client::AgentFlows> AgentJobDirectory::FlowsOf(const std::string& job) {
  const auto is_over = [](const auto& entry) { return entry.second.expired(); };
  const auto find = [&]() -> std::shared_ptr<client::AgentFlows> {
    const auto known = flows_.find(job);
    auto flows = known == flows_.end() ? nullptr : known->second.lock();
    return flows != nullptr && flows->is_connected() ? flows : nullptr;
  };
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(flows_, is_over);
    if (auto flows = find(); flows != nullptr) return flows;
    if (flows_.size() >= kMaxJobs && !flows_.contains(job)) return nullptr;
  }
  auto made = std::make_shared<client::AgentFlows>(agent_socket_, job);  // may wait
  if (!made->is_connected()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (auto flows = find(); flows != nullptr) return flows;  // another rank was faster
  flows_.insert_or_assign(job, made);
  return made;
}

void AgentJobDirectory::Dispatch() {
  const std::lock_guard lock(mutex_);
  for (const auto& [job, known] : flows_) {
    if (const auto flows = known.lock()) flows->Dispatch();
  }
}

}  // namespace espalier::engine
