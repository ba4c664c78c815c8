#include "controller/state/flows/flow_decisions.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {
namespace {

void SetShares(FlowPaths& paths, Flow& flow, std::span<const std::int64_t> shares) {
  for (std::size_t i = 0; i < flow.subflows.size(); ++i) {
    Subflow& subflow = flow.subflows[i];
    const std::int64_t before = ShareOf(flow, subflow);
    subflow.share = shares.empty() ? 0 : shares[i];
    const std::int64_t share = ShareOf(flow, subflow);
    if (share != before && subflow.id) paths.SetShare(*subflow.id, share);
  }
}

}  // namespace

void FlowDecisions::SetEnds(FlowSlot slot, const fabric::PortKey& key, fabric::NodeId source_leaf,
                            fabric::NodeId destination_leaf) {
  Flow& flow = flows_.Mutable(slot);
  flow.key = key;
  flow.source_leaf = source_leaf;
  flow.destination_leaf = destination_leaf;
}

bool FlowDecisions::Admit(FlowSlot slot, std::size_t subflows,
                          std::span<const std::uint16_t> ports) {
  Flow& flow = flows_.Mutable(slot);
  flow.subflows.resize(subflows);
  paths_.Register(slot);
  if (const auto opposite = connections_.Open(slot)) {
    Flow& other = flows_.Mutable(*opposite);
    flow.opposite = *opposite;
    other.opposite = slot;
    flow.other_end = other.other_end = OtherEnd::kQuiet;
  }
  bool is_adopting = false;
  for (std::size_t i = 0; i < std::min(flow.subflows.size(), ports.size()); ++i) {
    if (ports[i] == 0 || !paths_.TakePort(flow.key, ports[i])) continue;
    flow.subflows[i].port = ports[i];
    flow.subflows[i].adopting = true;
    is_adopting = true;
  }
  flows_.SetStatus(slot, is_adopting ? FlowStatus::kAdopting : FlowStatus::kNew);
  return is_adopting;
}

void FlowDecisions::Release(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    Remove(slot, i);
    if (flow.subflows[i].port != 0) paths_.ReleasePort(flow.key, flow.subflows[i].port);
    ports_.SetStandby(slot, i, kNoPath);
  }
  flow.subflows.clear();
  paths_.Unregister(slot);
  if (const auto opposite = connections_.Close(slot)) {
    Flow& other = flows_.Mutable(*opposite);
    other.opposite.reset();
    other.other_end = OtherEnd::kUnknown;
    flow.opposite.reset();
  }
}

void FlowDecisions::AdoptPath(FlowSlot slot, std::uint32_t index, fabric::PathIndex path) {
  Flow& flow = flows_.Mutable(slot);
  Subflow& subflow = flow.subflows[index];
  const fabric::Path& taken =
      path_table_.Between(flow.source_leaf, flow.destination_leaf)[path.Index()];
  subflow.adopting = false;
  subflow.port_path = path;
  subflow.urgent = !fabric::IsAlive(topology_, taken);
  if (subflow.urgent) ports_.Drop(slot, index);
  if (fabric::IsUsable(topology_, taken)) Place(slot, index, path.value());
}

void FlowDecisions::FinishAdoption(FlowSlot slot) {
  const bool has_paths = std::ranges::all_of(flows_.At(slot).subflows, [&](const Subflow& subflow) {
    return paths_.PathOf(subflow).has_value();
  });
  pushes_.MarkFlow(slot);
  flows_.SetStatus(slot, has_paths ? FlowStatus::kRouted : FlowStatus::kNew);
}

void FlowDecisions::AbandonAdoption(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    if (std::exchange(flow.subflows[i].adopting, false)) ports_.Drop(slot, i);
  }
  flows_.SetStatus(slot, FlowStatus::kNew);
}

bool FlowDecisions::RerouteLocally(FlowSlot slot, std::uint32_t index, std::uint16_t port) {
  Flow& flow = flows_.Mutable(slot);
  if (!paths_.TakePort(flow.key, port)) return false;
  Remove(slot, index);
  flow.rerouted_in = topology_.version();
  flow.subflows[index].port = port;
  flow.subflows[index].adopting = true;
  flows_.SetStatus(slot, FlowStatus::kAdopting);
  return true;
}

void FlowDecisions::Unsteer(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    Remove(slot, i);
    if (flow.subflows[i].port != 0) ports_.Drop(slot, i);
    flow.subflows[i].urgent = false;
    flow.subflows[i].adopting = false;
  }
  flow.is_parked = flow.is_answering;
  flow.is_on_plan = false;
  flow.rerouted_in = -1;
  flow.max_rate_bps = 0;
  flow.reason = wire::PathReason::kAssigned;
  flows_.SetStatus(slot, FlowStatus::kUnsteered);
  pushes_.MarkFlow(slot);
}

void FlowDecisions::Observe(FlowSlot slot, std::optional<fabric::PathIndex> path) {
  if (!path) return Remove(slot, 0);
  if (paths_.PathOf(flows_.At(slot).subflows.front()) != path) Place(slot, 0, path->value());
  SetInProgress(slot);
}

void FlowDecisions::AddSubflows(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    Subflow& subflow = flow.subflows[i];
    if (!subflow.id && !subflow.adopting) subflow.id = paths_.Add(slot, i);
  }
}

void FlowDecisions::Place(FlowSlot slot, std::uint32_t index, std::int32_t path) {
  Flow& flow = flows_.Mutable(slot);
  std::optional<SubflowId>& id = flow.subflows[index].id;
  const bool is_new = !id;
  if (is_new) id = paths_.Add(slot, index);
  paths_.Place(*id, path);
  if (is_new && flow.is_parked) paths_.Park(flow);
}

void FlowDecisions::Remove(FlowSlot slot, std::uint32_t index) {
  Flow& flow = flows_.Mutable(slot);
  std::optional<SubflowId>& id = flow.subflows[index].id;
  if (!id) return;
  flow.is_on_plan = false;
  paths_.Remove(*id);
  id.reset();
}

void FlowDecisions::SetOrigin(FlowSlot slot, DecisionOrigin origin) {
  flows_.Mutable(slot).origin = origin;
  if (origin == DecisionOrigin::kManual) pushes_.MarkFlow(slot);
}

void FlowDecisions::SetInProgress(FlowSlot slot) {
  const Flow& flow = flows_.At(slot);
  const bool is_pinned = !MayMove(slot, Mover::kChain);
  for (const Subflow& subflow : flow.subflows) {
    if (subflow.id) paths_.SetInProgress(*subflow.id, is_pinned);
  }
  if (flow.is_parked) paths_.Park(flow);
}

void FlowDecisions::Hold(FlowSlot slot, bool holds) {
  const bool is_pinned = holds || !MayMove(slot, Mover::kChain);
  for (const Subflow& subflow : flows_.At(slot).subflows) {
    if (subflow.id) paths_.Pin(*subflow.id, is_pinned);
  }
}

void FlowDecisions::FinishPorts(FlowSlot slot, wire::PathReason reason, bool is_complete) {
  flows_.Mutable(slot).reason = reason;
  flows_.SetStatus(slot, is_complete ? FlowStatus::kRouted : FlowStatus::kLearning);
}

void FlowDecisions::MarkUnroutable(FlowSlot slot, wire::PathReason reason) {
  Flow& flow = flows_.Mutable(slot);
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    if (flow.subflows[i].port != 0) ports_.Drop(slot, i);
  }
  flow.reason = reason;
  flows_.SetStatus(slot, FlowStatus::kUnroutable);
}

void FlowDecisions::DropBrokenPaths(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  const auto paths = path_table_.Between(flow.source_leaf, flow.destination_leaf);
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    Subflow& subflow = flow.subflows[i];
    if (subflow.adopting) continue;
    const auto path = paths_.PathOf(subflow);
    const bool is_usable = path && fabric::IsUsable(topology_, paths[path->Index()]);
    const auto in_use = subflow.port != 0 ? std::optional(subflow.port_path) : path;
    subflow.urgent = in_use && !fabric::IsAlive(topology_, paths[in_use->Index()]);
    if (!is_usable) Remove(slot, i);
  }
}

bool FlowDecisions::TakeBackupPath(FlowSlot slot, std::uint32_t index, std::int32_t path) {
  Flow& flow = flows_.Mutable(slot);
  Subflow& subflow = flow.subflows[index];
  const fabric::PathIndex in_use = subflow.port != 0 ? subflow.port_path : *paths_.PathOf(subflow);
  const auto paths = path_table_.Between(flow.source_leaf, flow.destination_leaf);
  subflow.urgent = !fabric::IsAlive(topology_, paths[in_use.Index()]);
  const bool is_dead = subflow.urgent;
  Place(slot, index, path);
  return is_dead;
}

void FlowDecisions::FinishFailover(FlowSlot slot, wire::PathReason reason) {
  Flow& flow = flows_.Mutable(slot);
  flow.origin = DecisionOrigin::kFailure;
  if (flow.status == FlowStatus::kAdopting) return;
  flow.reason = reason;
  pushes_.MarkFlow(slot);
}

void FlowDecisions::Park(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  flow.is_parked = true;
  paths_.Park(flow);
}

void FlowDecisions::Wake(FlowSlot slot, bool is_on_plan) {
  Flow& flow = flows_.Mutable(slot);
  flow.is_parked = false;
  flow.is_on_plan = is_on_plan;
  paths_.Wake(flow);
}

void FlowDecisions::SetOnPlan(FlowSlot slot, bool is_on_plan) {
  if (std::exchange(flows_.Mutable(slot).is_on_plan, is_on_plan) == is_on_plan) return;
  SetInProgress(slot);
}

void FlowDecisions::FollowPlan(FlowSlot slot, std::span<const std::int32_t> paths) {
  for (std::uint32_t i = 0; i < paths.size(); ++i) Place(slot, i, paths[i]);
  SetOrigin(slot, DecisionOrigin::kPredicted);
}

void FlowDecisions::Answer(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  flows_.Mutable(*flow.opposite).other_end = OtherEnd::kAnswers;
  flow.other_end = OtherEnd::kSends;
  flow.is_answering = true;
  flow.is_on_plan = false;
  Park(slot);
}

bool FlowDecisions::StopAnswering(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  if (!std::exchange(flow.is_answering, false)) return false;
  if (flow.opposite) flows_.Mutable(*flow.opposite).other_end = OtherEnd::kSends;
  return true;
}

void FlowDecisions::Divide(FlowSlot slot, std::span<const std::int64_t> shares, bool is_balanced) {
  Flow& flow = flows_.Mutable(slot);
  SetShares(paths_, flow, shares);
  flow.is_balanced = is_balanced;
  flow.reason = wire::PathReason::kAssigned;
  pushes_.MarkFlow(slot);
}

void FlowDecisions::IgnoreWeights(FlowSlot slot) {
  Flow& flow = flows_.Mutable(slot);
  flow.ignores_weights = true;
  SetShares(paths_, flow, {});
  pushes_.MarkFlow(slot);
}

void FlowDecisions::LimitRate(FlowSlot slot, std::uint64_t max_rate_bps) {
  flows_.Mutable(slot).max_rate_bps = max_rate_bps;
  pushes_.MarkFlow(slot);
}

}  // namespace espalier::controller
