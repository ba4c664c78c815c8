#include "controller/flow_table.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::controller {

std::string_view FlowStatusName(FlowStatus status) {
  switch (status) {
    case FlowStatus::kNew:
      return "NEW";
    case FlowStatus::kAdopting:
      return "ADOPTING";
    case FlowStatus::kLearning:
      return "LEARNING";
    case FlowStatus::kRouted:
      return "ROUTED";
    case FlowStatus::kLocal:
      return "LOCAL";
    case FlowStatus::kUnroutable:
      return "UNROUTABLE";
  }
  return "?";
}

FlowSlot FlowTable::Open(Flow flow) {
  if (by_agent_.size() <= flow.agent.Index()) by_agent_.resize(flow.agent.Index() + 1);
  auto& own = by_agent_[flow.agent.Index()];
  FlowSlot slot(static_cast<std::uint32_t>(slots_.size()));
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    slots_.emplace_back();
  }
  const bool inserted = own.emplace(flow.local, slot).second;
  ESPALIER_CHECK(inserted, "agent={} flow={} opened twice", flow.agent.value(), flow.local.value());
  slots_[slot.Index()] = std::move(flow);
  ++size_;
  return slot;
}

void FlowTable::Close(FlowSlot slot) {
  const Flow& flow = At(slot);
  by_agent_[flow.agent.Index()].erase(flow.local);
  slots_[slot.Index()].reset();
  free_.push_back(slot);
  --size_;
}

std::optional<FlowSlot> FlowTable::Find(AgentId agent, wire::LocalFlowId local) const {
  if (agent.Index() >= by_agent_.size()) return std::nullopt;
  const auto& own = by_agent_[agent.Index()];
  const auto found = own.find(local);
  if (found == own.end()) return std::nullopt;
  return found->second;
}

std::vector<FlowSlot> FlowTable::OfAgent(AgentId agent) const {
  std::vector<FlowSlot> slots;
  if (agent.Index() >= by_agent_.size()) return slots;
  for (const auto& [local, slot] : by_agent_[agent.Index()]) slots.push_back(slot);
  std::sort(slots.begin(), slots.end(),
            [&](FlowSlot a, FlowSlot b) { return At(a).local < At(b).local; });
  return slots;
}

std::vector<FlowSlot> FlowTable::All() const {
  std::vector<FlowSlot> slots;
  slots.reserve(size_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i]) slots.emplace_back(static_cast<std::uint32_t>(i));
  }
  return slots;
}

std::size_t FlowTable::CountOfAgent(AgentId agent) const {
  return agent.Index() < by_agent_.size() ? by_agent_[agent.Index()].size() : 0;
}

std::uint32_t FlowTable::JobIndex(const std::string& name) {
  const auto [found, inserted] =
      job_index_.try_emplace(name, static_cast<std::uint32_t>(jobs_.size()));
  if (inserted) jobs_.push_back(name);
  return found->second;
}

}  // namespace espalier::controller
