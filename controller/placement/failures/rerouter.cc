#include "controller/placement/failures/rerouter.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace espalier::controller {

using wire::PathReason;

// Problem: when a link or switch fails, its flows lose packets until they have another path, so the
// time to the first pushes counts more than the best assignment.
// Idea: two stages. TakeFailurePlan copies precomputed backup paths and their ports, without any
// search, and reports each agent as soon as its flows are done. HandleLinkChange then scans all
// flows for paths that are broken in any way, and places these as arrivals that may move no other
// flow. A dead path is `urgent`: its port is abandoned even if no port for the new path is known.
// Invariant: subflows that are being adopted are left alone, as their real path is unknown.
// Cost: O(affected log affected) for the first stage, O(flows) and the placing for the second.

bool Rerouter::IsOnBrokenPath(FlowSlot slot) const {
  if (!decisions_.MayMove(slot, Mover::kFailure)) return false;
  const Flow& flow = state_.flows.At(slot);
  return std::ranges::any_of(flow.subflows, [&](const Subflow& subflow) {
    if (subflow.adopting) return false;
    const auto path = state_.flow_paths.PathOf(subflow);
    if (path && !state_.flow_paths.IsOnUsablePath(subflow)) return true;
    if (subflow.port == 0 || path == subflow.port_path) return false;
    return !fabric::IsAlive(state_.topology, state_.PathsOf(flow)[subflow.port_path.Index()]);
  });
}

std::vector<Rerouter::Leaving> Rerouter::FindBackupPaths(
    FailurePlans& plans, LinkOrSwitch domain, std::span<const SubflowId> affected) const {
  std::vector<Leaving> leaving;
  leaving.reserve(affected.size());
  for (const SubflowId subflow : affected) {
    const FlowPaths::Owner& owner = state_.flow_paths.OwnerOf(subflow);
    if (!owner.slot) continue;
    const Flow& flow = state_.flows.At(*owner.slot);
    const auto backup = plans.BackupPathFor(domain, subflow);
    if (!backup || flow.subflows[owner.index].adopting) continue;
    if (!decisions_.MayMove(*owner.slot, Mover::kFailure)) continue;
    leaving.push_back({flow.agent, *owner.slot, owner.index, *backup});
  }
  std::sort(leaving.begin(), leaving.end(), [](const Leaving& a, const Leaving& b) {
    return std::tie(a.agent, a.slot, a.index) < std::tie(b.agent, b.slot, b.index);
  });
  return leaving;
}

std::vector<Rerouted> Rerouter::TakeFailurePlan(FailurePlans& plans, LinkOrSwitch domain,
                                                std::span<const SubflowId> affected,
                                                const std::function<void(AgentId)>& decided) {
  const std::vector<Leaving> leaving = FindBackupPaths(plans, domain, affected);
  std::vector<Rerouted> rerouted;
  rerouted.reserve(leaving.size());
  std::vector<FailurePlans::BackupPath> backups;  // of one flow, by subflow
  for (std::size_t i = 0; i < leaving.size();) {
    const Leaving& first = leaving[i];
    backups.assign(state_.flows.At(first.slot).subflows.size(), {});
    for (; i < leaving.size() && leaving[i].slot == first.slot; ++i) {
      backups[leaving[i].index] = leaving[i].to;
    }
    rerouted.push_back(TakeBackupPaths(first.slot, backups));
    if (i == leaving.size() || leaving[i].agent != first.agent) decided(first.agent);
  }
  return rerouted;
}

Rerouted Rerouter::TakeBackupPaths(FlowSlot slot,
                                   std::span<const FailurePlans::BackupPath> backups) {
  const Flow& flow = state_.flows.At(slot);
  Rerouted moved = BeginMove(state_, slot);
  const bool is_adopting = flow.status == FlowStatus::kAdopting;
  bool is_urgent = false;
  bool needs_ports = flow.status != FlowStatus::kRouted;
  for (std::uint32_t i = 0; i < backups.size(); ++i) {
    if (backups[i].path == kNoPath) continue;
    is_urgent |= decisions_.TakeBackupPath(slot, i, backups[i].path);
    if (!is_adopting) needs_ports |= !ports_.TakePort(slot, i, backups[i]);
  }
  EndMove(state_, moved);
  decisions_.FinishFailover(slot, is_urgent ? PathReason::kPathDead : PathReason::kAssigned);
  if (needs_ports && !is_adopting) ports_.ChoosePorts(slot, flow.reason);
  return moved;
}

std::vector<Rerouted> Rerouter::HandleLinkChange() {
  std::vector<FlowSlot> broken = state_.flows.All();
  std::erase_if(broken, [&](FlowSlot slot) { return !IsOnBrokenPath(slot); });
  broken = InOrder(state_, std::move(broken));
  std::vector<Rerouted> moves;
  moves.reserve(broken.size());
  for (const FlowSlot slot : broken) {
    moves.push_back(BeginMove(state_, slot));
    decisions_.DropBrokenPaths(slot);
  }
  // If a flow is being adopted, its other subflows wait for that.
  std::vector<FlowSlot> to_place = broken;
  std::erase_if(to_place, [&](FlowSlot slot) {
    return state_.flows.At(slot).status == FlowStatus::kAdopting;
  });
  placer_.FindPaths(to_place, 0);
  for (const FlowSlot slot : to_place) {
    decisions_.SetOrigin(slot, DecisionOrigin::kReactive);
    const bool urgent = std::ranges::any_of(state_.flows.At(slot).subflows, &Subflow::urgent);
    ports_.Settle(slot, urgent ? PathReason::kPathDead : PathReason::kAssigned);
    decisions_.SetInProgress(slot);
  }
  for (Rerouted& moved : moves) EndMove(state_, moved);
  return moves;
}

namespace {

// Before the change, when the links had the states of `topology`.
Reach ReachBefore(const State& state, const fabric::Topology& topology, const Flow& flow,
                  const Rerouted* moved) {
  const bool was_placed = moved != nullptr && moved->left > 0;
  if (was_placed || flow.subflows.empty()) return ReachOfEnds(state, topology, flow.key);
  const Reach reach = ReachOf(state, topology, flow);
  const auto is_unusable = [&](const Subflow& subflow) {
    const auto path = state.flow_paths.PathOf(subflow);
    return path && !fabric::IsUsable(topology, state.PathsOf(flow)[path->Index()]);
  };
  // A flow without a move whose path was not usable has been placed after the change.
  return std::ranges::any_of(flow.subflows, is_unusable) ? Reach::kWithoutPath : reach;
}

}  // namespace

LoadSummary SummarizeBefore(const State& state, const fabric::Topology& topology,
                            std::span<const Rerouted> rerouted) {
  std::vector<const Rerouted*> had_others(state.flows.slot_count());
  for (const Rerouted& moved : rerouted) {
    if (!IsStillOpen(state, moved)) continue;
    const Rerouted*& first = had_others[moved.slot.Index()];
    if (first == nullptr) first = &moved;
  }
  const FabricView view(topology, state.paths);
  Assignment paths;
  std::vector<FlowSlot> slots;
  std::vector<std::uint32_t> hops;
  ReachCounts reach;
  for (const auto& [name, edge] : state.edges.all()) reach.Add(ReachOf(state, topology, edge));
  for (const FlowSlot slot : state.flows.All()) {
    const Flow& flow = state.flows.At(slot);
    const Rerouted* const moved = had_others[slot.Index()];
    reach.Add(ReachBefore(state, topology, flow, moved));
    if (flow.is_answering || (flow.is_parked && state.phases.Of(slot).empty())) continue;
    if (moved != nullptr ? moved->left != flow.subflows.size() : !state.HasPaths(flow)) continue;
    const std::size_t first = paths.paths.size();
    hops.clear();
    for (std::size_t i = 0; i < flow.subflows.size(); ++i) {
      const std::int32_t path =
          moved != nullptr ? moved->from()[i] : state.flow_paths.PathOf(*flow.subflows[i].id);
      paths.paths.push_back(path);
      view.AppendHops(*view.LeafOf(flow.source_leaf), *view.LeafOf(flow.destination_leaf), path,
                      hops);
    }
    if (flow.subflows.empty() || !view.IsUsable(hops)) {  // placed after the change
      paths.paths.resize(first);
      continue;
    }
    slots.push_back(slot);
    paths.first.push_back(static_cast<std::uint32_t>(first));
  }
  paths.first.push_back(static_cast<std::uint32_t>(paths.paths.size()));
  const Elephants elephants = DescribeElephants(state, slots);
  LoadSummary summary = SummarizePaths(state, view, elephants, paths);
  summary.reach = reach;
  summary.left_out = CountLeftOut(state);
  return summary;
}

}  // namespace espalier::controller
