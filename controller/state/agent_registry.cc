#include "controller/state/agent_registry.h"

#include <utility>

namespace espalier::controller {

AgentId AgentRegistry::Intern(const std::string& name) {
  const auto [found, inserted] =
      by_name_.try_emplace(name, AgentId(static_cast<std::int32_t>(agents_.size())));
  if (inserted) agents_.emplace_back().name = name;
  return found->second;
}

std::optional<AgentId> AgentRegistry::FindByName(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::optional<AgentId> AgentRegistry::FindByPeer(PeerId peer) const {
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end()) return std::nullopt;
  return found->second;
}

void AgentRegistry::Connect(AgentId id, PeerId peer) {
  Disconnect(id);
  At(id).peer = peer;
  by_peer_[peer] = id;
}

void AgentRegistry::Disconnect(AgentId id) {
  Agent& agent = At(id);
  if (agent.peer) by_peer_.erase(*agent.peer);
  agent.peer.reset();
}

void AgentRegistry::SetPlan(AgentId id, wire::RankPlan plan) {
  const RankOfJob rank(plan.job, plan.rank);
  At(id).plans[rank] = {std::make_shared<const wire::RankPlan>(std::move(plan)), 0};
  At(id).dirty_plans.insert(rank);
  QueuePush(id);
}

void AgentRegistry::EndPlan(AgentId id, const RankOfJob& rank) {
  if (At(id).plans.erase(rank) == 0) return;
  At(id).dirty_plans.insert(rank);
  QueuePush(id);
}

}  // namespace espalier::controller
