#include "agent/dpdk/agent_link.h"

#include <algorithm>
#include <cerrno>

namespace espalier::dpdk {
namespace {

constexpr Duration kRetry = std::chrono::seconds(1);

}  // namespace

bool AgentLink::Look(TimePoint now) {
  if (connections_.empty()) {
    if (now >= next_try_ && !Connect()) next_try_ = now + kRetry;
    return true;
  }
  const bool is_there = std::all_of(
      connections_.begin(), connections_.end(),
      [](const Connection& connection) { return espalier_agent_dispatch(connection.get()) == 0; });
  if (!is_there) connections_.clear();
  return is_there;
}

bool AgentLink::Connect() {
  espalier_agent* agent = nullptr;
  if (espalier_agent_connect(socket_path_.c_str(), &agent) != 0) return false;
  connections_.emplace_back(agent);
  return true;
}

espalier_flow* AgentLink::Open(const espalier_flow_desc& description) {
  espalier_flow* flow = nullptr;
  for (const Connection& connection : connections_) {
    if (espalier_flow_open(connection.get(), &description, &flow) == 0) return flow;
  }
  if (connections_.empty() || connections_.size() == kMaxConnections || !Connect()) return nullptr;
  return espalier_flow_open(connections_.back().get(), &description, &flow) == 0 ? flow : nullptr;
}

}  // namespace espalier::dpdk
