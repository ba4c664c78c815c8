#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/state/flow_table.h"
#include "proto/messages.h"

namespace espalier::controller {

using RankOfJob = std::pair<std::string, std::uint32_t>;

// What agents are yet to be told: the one place where a decision that is not pushed yet is marked.
// Whoever decides marks, the publisher takes.
// Thread safety: the controller's loop thread.
class PushQueue {
 public:
  explicit PushQueue(FlowTable& flows) : flows_(flows) {}

  // The flow was decided anew.
  void MarkFlow(FlowSlot slot);
  // The plan of a rank on the agent's host is new, changed or ended.
  void MarkPlan(AgentId id, const RankOfJob& rank);
  // The agent is to be told everything: nobody knows what it has.
  void MarkAll(AgentId id);

  // What one agent is to be told. An agent that was never told anything is to be told everything.
  struct Changes {
    bool needs_full = true;
    std::vector<wire::LocalFlowId> flows;
    std::set<RankOfJob> plans;
  };
  bool NeedsFull(AgentId id) const { return id.Index() >= changes_.size() || At(id).needs_full; }
  bool IsEmpty() const { return agents_.empty(); }

  // For the publisher. Agents for which something is marked, ascending: few of many.
  std::set<AgentId>& agents() { return agents_; }
  Changes& Of(AgentId id);

 private:
  const Changes& At(AgentId id) const { return changes_[id.Index()]; }

  FlowTable& flows_;
  std::vector<Changes> changes_;  // by agent
  std::set<AgentId> agents_;
};

}  // namespace espalier::controller
