#include "controller/state/flows/push_queue.h"

namespace espalier::controller {

PushQueue::Changes& PushQueue::Of(AgentId id) {
  if (id.Index() >= changes_.size()) changes_.resize(id.Index() + 1);
  return changes_[id.Index()];
}

void PushQueue::MarkFlow(FlowSlot slot) {
  PushState& push = flows_.PushOf(slot);
  if (!push.is_dirty && !push.has_new_standbys) Queue(slot);
  push.is_dirty = true;
}

void PushQueue::MarkStandbys(FlowSlot slot) {
  PushState& push = flows_.PushOf(slot);
  if (!push.is_dirty && !push.has_new_standbys) Queue(slot);
  push.has_new_standbys = true;
}

void PushQueue::Queue(FlowSlot slot) {
  const Flow& flow = flows_.At(slot);
  Of(flow.agent).flows.push_back(flow.local);
  agents_.insert(flow.agent);
}

void PushQueue::MarkRankPlan(AgentId id, const RankOfJob& rank) {
  Of(id).plans.insert(rank);
  agents_.insert(id);
}

void PushQueue::MarkAll(AgentId id) {
  Of(id).needs_full = true;
  agents_.insert(id);
}

}  // namespace espalier::controller
