#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/state/flows/flow_table.h"
#include "proto/messages.h"

namespace espalier::controller {

using RankOfJob = std::pair<std::string, std::uint32_t>;

// Holds the decisions that are not pushed yet: those who decide mark them, and the publisher takes
// them.
// Thread safety: the controller's loop thread.
class PushQueue {
 public:
  explicit PushQueue(FlowTable& flows) : flows_(flows) {}

  // The decision for the flow has changed.
  void MarkFlow(FlowSlot slot);
  // Only the standby paths of the flow have changed.
  void MarkStandbys(FlowSlot slot);
  // The plan of a rank on the agent's host is new, changed or ended.
  void MarkRankPlan(AgentId id, const RankOfJob& rank);
  // The agent needs a full push, because its state is unknown.
  void MarkAll(AgentId id);

  // The pending changes of one agent. An agent starts with needing a full push.
  struct Changes {
    bool needs_full = true;
    std::vector<wire::LocalFlowId> flows;
    std::set<RankOfJob> plans;
  };
  bool NeedsFull(AgentId id) const { return id.Index() >= changes_.size() || At(id).needs_full; }
  bool IsEmpty() const { return agents_.empty(); }

  // For the publisher: the agents with pending changes, ascending; usually a few of many.
  std::set<AgentId>& agents() { return agents_; }
  Changes& Of(AgentId id);

 private:
  void Queue(FlowSlot slot);
  const Changes& At(AgentId id) const { return changes_[id.Index()]; }

  FlowTable& flows_;
  std::vector<Changes> changes_;  // by agent
  std::set<AgentId> agents_;
};

}  // namespace espalier::controller
