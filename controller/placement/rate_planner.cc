#include "controller/placement/rate_planner.h"

#include <utility>

#include "controller/placement/load_summary.h"

namespace espalier::controller {
namespace {

bool IsWorthTelling(std::uint64_t before, std::uint64_t now) {
  const std::uint64_t change = now > before ? now - before : before - now;
  return change > before / 16;
}

}  // namespace

void RatePlanner::Update() {
  if (std::exchange(seen_changes_, state_.flow_paths.changes()) == state_.flow_paths.changes())
    return;
  std::vector<FlowSlot> slots = state_.flows.All();
  // Idle flows leave their rate to the others. Their own limit stays until they send again.
  std::erase_if(slots, [&](FlowSlot slot) {
    const FlowActivity& activity = state_.flows.ActivityOf(slot);
    const bool is_idle = activity.ReportsEdges() && !activity.IsBusy();
    return is_idle || !state_.CountsAsLoad(state_.flows.At(slot));
  });
  const Elephants elephants = DescribeElephants(state_, slots);
  const Assignment present = CurrentPaths(state_, elephants);
  const auto rates = rates_.Predict(elephants.commodities, present, elephants.base_loads);
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    Flow& flow = state_.flows.At(elephants.slots[i]);
    const auto rate = static_cast<std::uint64_t>(rates[i]);
    if (!IsWorthTelling(flow.max_rate_bps, rate)) continue;
    flow.max_rate_bps = rate;
    state_.pushes.MarkFlow(elephants.slots[i]);
  }
}

void RatePlanner::LiftLimits() {
  for (const FlowSlot slot : state_.flows.All()) {
    Flow& flow = state_.flows.At(slot);
    if (std::exchange(flow.max_rate_bps, 0) != 0) state_.pushes.MarkFlow(slot);
  }
  seen_changes_ = 0;
}

}  // namespace espalier::controller
