#include "controller/placement/ports/return_path_watch.h"

#include <algorithm>
#include <cstdint>

#include "controller/paths/models/return_key.h"

namespace espalier::controller {

void ReturnPathWatch::HandleLinkChange() {
  queue_ = state_.flows.All();
  std::erase_if(
      queue_, [&](FlowSlot slot) { return state_.flows.At(slot).protocol != wire::kProtocolTcp; });
}

void ReturnPathWatch::HandleReturnPathChange(const fabric::PortKey& back) {
  if (!ports_.returns().HasDeadLink()) return;
  for (const fabric::PortEntry& entry : state_.path_map.Ports(back)) {
    const auto flows = state_.flow_paths.pairs().find(ReturnKeyOf(back, entry.port));
    if (flows == state_.flow_paths.pairs().end()) continue;
    for (const FlowSlot slot : flows->second) {
      const Flow& flow = state_.flows.At(slot);
      const bool has_port = std::ranges::any_of(flow.subflows, [&](const Subflow& subflow) {
        return subflow.port == back.destination_port;
      });
      if (has_port && flow.protocol == wire::kProtocolTcp) queue_.push_back(slot);
    }
  }
  RerouteDeadReturns();
}

void ReturnPathWatch::RerouteDeadReturns() {
  for (std::size_t left = kReturnsAtOnce; left > 0 && !queue_.empty(); --left) {
    const FlowSlot slot = queue_.back();
    queue_.pop_back();
    if (state_.flows.IsOpen(slot) && decisions_.MayMove(slot, Mover::kReturn)) Inspect(slot);
  }
}

void ReturnPathWatch::Inspect(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  bool is_dead = false;
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    const std::uint16_t port = flow.subflows[i].port;
    ports_.returns().AskFor(flow, port);
    if (!ports_.returns().IsDead(flow, port)) continue;
    decisions_.ports().SetUrgent(slot, i, true);
    is_dead = true;
  }
  if (is_dead) ports_.ChoosePorts(slot, wire::PathReason::kPathDead);
}

}  // namespace espalier::controller
