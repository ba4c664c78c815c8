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

}  // namespace espalier::controller
