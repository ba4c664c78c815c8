#include "controller/placement/rerouter.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "controller/routing/load_bounds.h"

namespace espalier::controller {

using wire::PathReason;

bool Rerouter::IsOnBrokenPath(const Flow& flow) const {
  if (flow.ways.empty()) return false;
  return std::any_of(flow.ways.begin(), flow.ways.end(), [&](const FlowWay& way) {
    if (way.adopting) return false;
    const auto path = state_.flow_paths.PathOf(way);
    if (path && !state_.flow_paths.live().IsOnUsablePath(*way.way)) return true;
    if (way.port == 0 || path == way.port_path) return false;
    return !fabric::IsAlive(state_.topology, state_.PathsOf(flow)[way.port_path.Index()]);
  });
}

void Rerouter::GiveUpUnusable(Flow& flow) {
  const auto paths = state_.PathsOf(flow);
  for (FlowWay& way : flow.ways) {
    if (way.adopting) continue;
    const auto path = state_.flow_paths.PathOf(way);
    const bool usable = path && fabric::IsUsable(state_.topology, paths[path->Index()]);
    const auto in_use = way.port != 0 ? std::optional(way.port_path) : path;
    way.urgent = in_use && !fabric::IsAlive(state_.topology, paths[in_use->Index()]);
    if (!usable) state_.flow_paths.Remove(way);
  }
}

std::vector<Rerouter::Leaving> Rerouter::FindEscapes(
    FailurePlans& plans, LinkOrSwitch element, std::span<const LivePaths::Way> stranded) const {
  std::vector<Leaving> leaving;
  leaving.reserve(stranded.size());
  for (const LivePaths::Way way : stranded) {
    const FlowPaths::Owner& owner = state_.flow_paths.OwnerOf(way);
    if (!owner.slot) continue;
    const Flow& flow = state_.flows.At(*owner.slot);
    const auto escape = plans.EscapeFor(element, way);
    if (!escape || flow.ways[owner.index].adopting) continue;
    leaving.push_back({flow.agent, *owner.slot, owner.index, *escape});
  }
  std::sort(leaving.begin(), leaving.end(), [](const Leaving& a, const Leaving& b) {
    return std::tie(a.agent, a.slot, a.index) < std::tie(b.agent, b.slot, b.index);
  });
  return leaving;
}

std::vector<Rerouted> Rerouter::TakeFailurePlan(FailurePlans& plans, LinkOrSwitch element,
                                                std::span<const LivePaths::Way> stranded,
                                                const std::function<void(AgentId)>& decided) {
  const std::vector<Leaving> leaving = FindEscapes(plans, element, stranded);
  std::vector<Rerouted> rerouted;
  rerouted.reserve(leaving.size());
  std::vector<FailurePlans::Escape> escapes;  // of one flow, by way
  for (std::size_t i = 0; i < leaving.size();) {
    const Leaving& first = leaving[i];
    escapes.assign(state_.flows.At(first.slot).ways.size(), {});
    for (; i < leaving.size() && leaving[i].slot == first.slot; ++i) {
      escapes[leaving[i].index] = leaving[i].to;
    }
    rerouted.push_back(TakeEscapes(first.slot, escapes));
    if (i == leaving.size() || leaving[i].agent != first.agent) decided(first.agent);
  }
  return rerouted;
}

Rerouted Rerouter::TakeEscapes(FlowSlot slot, std::span<const FailurePlans::Escape> escapes) {
  Flow& flow = state_.flows.At(slot);
  Rerouted moved = BeginMove(state_, slot);
  bool is_urgent = false;
  bool needs_ports = flow.status != FlowStatus::kRouted;
  for (std::size_t i = 0; i < escapes.size(); ++i) {
    if (escapes[i].path == kNoPath) continue;
    FlowWay& way = flow.ways[i];
    const fabric::PathIndex in_use = way.port != 0 ? way.port_path : *state_.flow_paths.PathOf(way);
    way.urgent = !fabric::IsAlive(state_.topology, state_.PathsOf(flow)[in_use.Index()]);
    is_urgent |= way.urgent;
    state_.flow_paths.Place(way, escapes[i].path);
    if (flow.status == FlowStatus::kAdopting) continue;
    needs_ports |= !ports_.TakePort(flow, way, escapes[i]);
  }
  EndMove(state_, moved);
  flow.origin = PlanOrigin::kFailure;
  if (flow.status == FlowStatus::kAdopting) return moved;
  flow.reason = is_urgent ? PathReason::kPathDead : PathReason::kRecomputed;
  state_.pushes.MarkFlow(slot);
  if (needs_ports) ports_.ChoosePorts(slot, flow.reason);
  return moved;
}

std::vector<Rerouted> Rerouter::HandleLinkChange() {
  std::vector<FlowSlot> broken = state_.flows.All();
  std::erase_if(broken, [&](FlowSlot slot) { return !IsOnBrokenPath(state_.flows.At(slot)); });
  broken = InOrder(state_, std::move(broken));
  std::vector<Rerouted> moves;
  moves.reserve(broken.size());
  for (const FlowSlot slot : broken) {
    moves.push_back(BeginMove(state_, slot));
    GiveUpUnusable(state_.flows.At(slot));
  }
  // Where a flow is being adopted its other ways wait for that.
  std::vector<FlowSlot> to_place = broken;
  std::erase_if(to_place, [&](FlowSlot slot) {
    return state_.flows.At(slot).status == FlowStatus::kAdopting;
  });
  placer_.FindPaths(to_place, 0);
  for (const FlowSlot slot : to_place) {
    Flow& flow = state_.flows.At(slot);
    flow.origin = PlanOrigin::kReactive;
    const bool urgent = std::ranges::any_of(flow.ways, &FlowWay::urgent);
    ports_.Settle(slot, urgent ? PathReason::kPathDead : PathReason::kRecomputed);
    state_.flow_paths.SetLive(flow);
  }
  for (Rerouted& moved : moves) EndMove(state_, moved);
  return moves;
}

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
  for (const FlowSlot slot : state.flows.All()) {
    const Flow& flow = state.flows.At(slot);
    const Rerouted* const moved = had_others[slot.Index()];
    if (moved != nullptr ? moved->left != flow.ways.size() : !state.HasPaths(flow)) continue;
    const std::size_t first = paths.paths.size();
    hops.clear();
    for (std::size_t i = 0; i < flow.ways.size(); ++i) {
      const std::int32_t path =
          moved != nullptr ? moved->from()[i] : state.flow_paths.live().PathOf(*flow.ways[i].way);
      paths.paths.push_back(path);
      view.AppendHops(*view.LeafOf(flow.source_leaf), *view.LeafOf(flow.destination_leaf), path,
                      hops);
    }
    if (flow.ways.empty() || !view.IsUsable(hops)) {  // it has come there since
      paths.paths.resize(first);
      continue;
    }
    slots.push_back(slot);
    paths.first.push_back(static_cast<std::uint32_t>(first));
  }
  paths.first.push_back(static_cast<std::uint32_t>(paths.paths.size()));
  const Elephants elephants = DescribeElephants(state, slots);
  return {ComputeMaxLoad(view, ComputeLoads(view, elephants.commodities, paths)),
          ComputeLowerBound(view, elephants.commodities)};
}

}  // namespace espalier::controller
