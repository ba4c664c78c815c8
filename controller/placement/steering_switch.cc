#include "controller/placement/steering_switch.h"

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
  if (state_.intents.steering.empty()) return true;
  return SteeringRules(state_.intents.steering)
      .IsSteered(state_.agents.At(flow.agent).name, state_.flows.JobName(flow.job));
}

void SteeringSwitch::TurnOff(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  if (!IsSteerable(flow)) return;
  local_reroutes_.Forget(slot);
  for (Subflow& subflow : flow.subflows) {
    if (subflow.id) state_.flow_paths.Remove(subflow);
    if (subflow.port != 0) ports_.SetPort(slot, subflow, 0);
    subflow.urgent = false;
    subflow.adopting = false;
  }
  flow.is_parked = flow.is_answering;
  flow.is_on_plan = false;
  flow.rerouted_in = -1;
  flow.max_rate_bps = 0;
  flow.reason = PathReason::kAssigned;
  state_.flows.SetStatus(slot, FlowStatus::kUnsteered);
  state_.pushes.MarkFlow(slot);
}

void SteeringSwitch::Observe(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  if (flow.subflows.size() != 1 || flow.own_port == 0) return;
  Subflow& subflow = flow.subflows.front();
  const auto path = OwnPathOf(state_, flow, state_.topology);
  if (!path) {
    if (subflow.id) state_.flow_paths.Remove(subflow);
    const auto entry = state_.path_map.Find(flow.key, flow.own_port);
    // Its path may be known, but drained; to probe it again would show the same.
    const bool is_known = entry && entry->trust != fabric::PortTrust::kReverify;
    if (!is_known) learner_.Verify(flow.key, flow.own_port);
    return;
  }
  if (!subflow.id) state_.flow_paths.Add(slot, 0);
  if (state_.flow_paths.PathOf(subflow) != path) state_.flow_paths.Place(subflow, path->value());
  state_.flow_paths.SetInProgress(flow);
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
    for (Subflow& subflow : state_.flows.At(slot).subflows) {
      if (subflow.id) state_.flow_paths.Remove(subflow);
    }
  }
  placer_.FindPaths(turned_on, 0);
  for (const FlowSlot slot : turned_on) {
    state_.flows.At(slot).origin = DecisionOrigin::kManual;
    ports_.Settle(slot, PathReason::kAssigned);
    state_.flow_paths.SetInProgress(state_.flows.At(slot));
    state_.pushes.MarkFlow(slot);
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
