#include "controller/placement/failures/steering_switch.h"

#include <algorithm>

namespace espalier::controller {

using wire::PathReason;

bool IsSteerable(const Flow& flow) { return !flow.subflows.empty(); }

std::optional<fabric::PathIndex> OwnPathOf(const State& state, const Flow& flow,
                                           const fabric::Topology& topology) {
  if (flow.subflows.size() != 1 || flow.own_port == 0) return std::nullopt;
  const auto entry = state.path_map.Find(flow.key, flow.own_port);
  if (!entry || entry->trust == fabric::PortTrust::kReverify) return std::nullopt;
  if (!fabric::IsUsable(topology, state.PathsOf(flow)[entry->path.Index()])) return std::nullopt;
  return entry->path;
}

bool SteeringSwitch::IsSteered(const Flow& flow) const {
  if (IsSteerable(flow) && state_.IsSprayed(flow)) return false;
  return state_.Steering().IsSteered(state_.agents.At(flow.agent).name,
                                     state_.flows.JobName(flow.job));
}

void SteeringSwitch::TurnOff(FlowSlot slot) {
  if (!IsSteerable(state_.flows.At(slot))) return;
  local_reroutes_.Forget(slot);
  decisions_.Unsteer(slot);
}

void SteeringSwitch::Observe(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.subflows.size() != 1 || flow.own_port == 0) return;
  if (state_.IsSprayed(flow)) return decisions_.Observe(slot, std::nullopt);
  const auto path = OwnPathOf(state_, flow, state_.topology);
  decisions_.Observe(slot, path);
  if (path) return;
  const auto entry = state_.path_map.Find(flow.key, flow.own_port);
  // Its path may be known, but drained; to probe it again would show the same.
  const bool is_known = entry && entry->trust != fabric::PortTrust::kReverify;
  if (!is_known) learner_.Verify(flow.key, flow.own_port);
}

std::vector<Rerouted> SteeringSwitch::Apply() {
  std::vector<FlowSlot> turned_off;
  std::vector<FlowSlot> turned_on;
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (!IsSteerable(flow)) continue;
    const bool is_steered = flow.status != FlowStatus::kUnsteered;
    if (IsSteered(flow) == is_steered) continue;
    (is_steered ? turned_off : turned_on).push_back(slot);
  }
  std::vector<Rerouted> moves;
  for (const FlowSlot slot : InOrder(state_, std::move(turned_off))) {
    moves.push_back(BeginMove(state_, slot));
    TurnOff(slot);
    EndMove(state_, moves.back());
    Observe(slot);
  }
  turned_on = InOrder(state_, std::move(turned_on));
  std::vector<Rerouted> placed;
  for (const FlowSlot slot : turned_on) {
    placed.push_back(BeginMove(state_, slot));
    const std::size_t subflows = state_.flows.At(slot).subflows.size();
    for (std::uint32_t i = 0; i < subflows; ++i) decisions_.Remove(slot, i);
  }
  placer_.FindPaths(turned_on, 0);
  for (const FlowSlot slot : turned_on) {
    decisions_.SetOrigin(slot, DecisionOrigin::kManual);
    ports_.Settle(slot, PathReason::kAssigned);
    decisions_.SetInProgress(slot);
  }
  for (Rerouted& moved : placed) EndMove(state_, moved);
  moves.insert(moves.end(), placed.begin(), placed.end());
  return moves;
}

void SteeringSwitch::HandleLinkChange() {
  for (const FlowSlot slot : state_.flows.All()) {
    if (state_.flows.At(slot).status == FlowStatus::kUnsteered) Observe(slot);
  }
}

}  // namespace espalier::controller
