// Moves of flows that live: off paths that broke, and by an assignment of all.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "controller/placement/placement.h"
#include "controller/routing/load_bounds.h"
#include "controller/settings/policies.h"

namespace espalier::controller {

using wire::PathReason;

FlowMove Placement::DescribeMove(FlowSlot slot, std::string from) {
  const Flow& flow = state_.flows.At(slot);
  return {state_.FlowName(flow), state_.flows.JobName(flow.job), std::move(from), state_.Via(flow),
          state_.BytesInFlight(slot)};
}

bool Placement::IsOnBrokenPath(const Flow& flow, const fabric::Topology& topology) {
  if (flow.ways.empty() || flow.tree_load != 0) return false;
  const auto paths = state_.PathsOf(flow);
  return std::ranges::any_of(flow.ways, [&](const FlowWay& way) {
    if (way.adopting) return false;
    // The port may lead to where it led before the path was chosen.
    if (way.port != 0 && !fabric::IsAlive(topology, paths[way.port_path.Index()])) {
      return true;
    }
    const auto path = state_.PathOf(way);
    return path && !fabric::IsUsable(topology, paths[path->Index()]);
  });
}

bool Placement::IsOnBrokenPath(const Flow& flow) {
  if (flow.ways.empty() || flow.tree_load != 0) return false;
  return std::any_of(flow.ways.begin(), flow.ways.end(), [&](const FlowWay& way) {
    if (way.adopting) return false;
    const auto path = state_.PathOf(way);
    if (path && !state_.live.IsOnUsablePath(*way.way)) return true;
    if (way.port == 0 || path == way.port_path) return false;
    return !fabric::IsAlive(state_.topology, state_.PathsOf(flow)[way.port_path.Index()]);
  });
}

void Placement::GiveUpUnusable(Flow& flow) {
  const auto paths = state_.PathsOf(flow);
  for (FlowWay& way : flow.ways) {
    if (way.adopting) continue;
    const auto path = state_.PathOf(way);
    const bool usable = path && fabric::IsUsable(state_.topology, paths[path->Index()]);
    const auto in_use = way.port != 0 ? std::optional(way.port_path) : path;
    way.urgent = in_use && !fabric::IsAlive(state_.topology, paths[in_use->Index()]);
    if (!usable) RemoveWay(way);
  }
}

bool Placement::TakePort(Flow& flow, FlowWay& way, const FailurePlans::Escape& escape) {
  const fabric::PathIndex path(escape.path);
  if (escape.port == 0) return false;
  if (!escape.leads_there) {
    const auto entry = state_.path_map.Find(flow.key, escape.port);
    if (!entry || entry->path != path) return false;
  }
  if (!state_.ports.Exchange(flow.key, way.port, escape.port)) return false;
  way.port = escape.port;
  way.port_path = path;
  way.urgent = false;
  return true;
}

std::vector<Placement::Rerouted> Placement::TakeFailurePlan(
    FailurePlans& plans, FailurePlans::Element element, std::span<const LivePaths::Way> stranded,
    const std::function<void(AgentId)>& decided) {
  struct Leaving {
    AgentId agent;
    State::WayOwner owner;
    FailurePlans::Escape to;
  };
  std::vector<Leaving> leaving;
  leaving.reserve(stranded.size());
  for (const LivePaths::Way way : stranded) {
    const State::WayOwner owner = state_.owners[way];
    const Flow& flow = state_.flows.At(owner.slot);
    const auto escape = plans.EscapeFor(element, way);
    if (!escape || flow.ways[owner.index].adopting) continue;
    leaving.push_back({flow.agent, owner, *escape});
  }
  std::sort(leaving.begin(), leaving.end(), [](const Leaving& a, const Leaving& b) {
    return std::tie(a.agent, a.owner.slot, a.owner.index) <
           std::tie(b.agent, b.owner.slot, b.owner.index);
  });
  std::vector<Rerouted> rerouted;
  rerouted.reserve(leaving.size());
  std::vector<FailurePlans::Escape> escapes;  // of one flow, by way
  for (std::size_t i = 0; i < leaving.size();) {
    const Leaving first = leaving[i];
    escapes.assign(state_.flows.At(first.owner.slot).ways.size(), {});
    for (; i < leaving.size() && leaving[i].owner.slot == first.owner.slot; ++i) {
      escapes[leaving[i].owner.index] = leaving[i].to;
    }
    rerouted.push_back(TakeEscapes(first.owner.slot, escapes));
    if (i == leaving.size() || leaving[i].agent != first.agent) decided(first.agent);
  }
  return rerouted;
}

Placement::Rerouted Placement::TakeEscapes(FlowSlot slot,
                                           std::span<const FailurePlans::Escape> escapes) {
  Flow& flow = state_.flows.At(slot);
  Rerouted moved = BeginMove(slot);
  bool is_urgent = false;
  bool needs_ports = flow.status != FlowStatus::kRouted;
  for (std::size_t i = 0; i < escapes.size(); ++i) {
    if (escapes[i].path == kNoPath) continue;
    FlowWay& way = flow.ways[i];
    const fabric::PathIndex in_use = way.port != 0 ? way.port_path : *state_.PathOf(way);
    way.urgent = !fabric::IsAlive(state_.topology, state_.PathsOf(flow)[in_use.Index()]);
    is_urgent |= way.urgent;
    PlaceWay(way, escapes[i].path);
    if (flow.status == FlowStatus::kAdopting) continue;
    needs_ports |= !TakePort(flow, way, escapes[i]);
  }
  EndMove(moved);
  flow.origin = PlanOrigin::kFailure;
  if (flow.status == FlowStatus::kAdopting) return moved;
  flow.reason = is_urgent ? PathReason::kPathDead : PathReason::kRecomputed;
  state_.MarkDirty(flow);
  if (needs_ports) ChoosePorts(slot, flow.reason);
  return moved;
}

std::vector<FlowMove> Placement::Describe(std::span<const Rerouted> rerouted) {
  std::vector<FlowMove> moves;
  moves.reserve(rerouted.size());
  for (const Rerouted& moved : rerouted) {
    const auto via = [&](std::span<const std::int32_t> paths) {
      return state_.Via(moved.source_leaf, moved.destination_leaf, paths);
    };
    moves.push_back({state_.FlowName(moved.agent, moved.local), *moved.job, via(moved.from()),
                     via(moved.to()), IsStillOpen(moved) ? state_.BytesInFlight(moved.slot) : 0});
  }
  return moves;
}

Placement::Rerouted Placement::BeginMove(FlowSlot slot) const {
  const Flow& flow = state_.flows.At(slot);
  Rerouted moved{.slot = slot,
                 .agent = flow.agent,
                 .local = flow.local,
                 .job = state_.flows.jobs().Shared(flow.job),
                 .source_leaf = flow.source_leaf,
                 .destination_leaf = flow.destination_leaf};
  EndMove(moved);  // what it has now
  moved.left = moved.all;
  return moved;
}

bool Placement::IsStillOpen(const Rerouted& moved) const {
  if (!state_.flows.IsOpen(moved.slot)) return false;
  const Flow& flow = state_.flows.At(moved.slot);
  return flow.agent == moved.agent && flow.local == moved.local;
}

void Placement::EndMove(Rerouted& moved) const {
  for (const FlowWay& way : state_.flows.At(moved.slot).ways) {
    if (const auto path = state_.PathOf(way)) moved.paths[moved.all++] = path->value();
  }
}

LoadSummary Placement::SummarizeBefore(const fabric::Topology& topology,
                                       std::span<const Rerouted> rerouted) {
  std::vector<const Rerouted*> had_others(state_.flows.slot_count());
  for (const Rerouted& moved : rerouted) {
    if (!IsStillOpen(moved)) continue;
    const Rerouted*& first = had_others[moved.slot.Index()];
    if (first == nullptr) first = &moved;
  }
  FabricView view(topology, state_.paths);
  Assignment paths;
  std::vector<FlowSlot> slots;
  std::vector<std::uint32_t> hops;
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    const Rerouted* const moved = had_others[slot.Index()];
    if (moved != nullptr ? moved->left != flow.ways.size() : !state_.HasPaths(flow)) continue;
    const std::size_t first = paths.paths.size();
    hops.clear();
    for (std::size_t i = 0; i < flow.ways.size(); ++i) {
      const std::int32_t path =
          moved != nullptr ? moved->from()[i] : state_.live.PathOf(*flow.ways[i].way);
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
  const Elephants elephants = DescribeElephants(state_, slots);
  return {ComputeMaxLoad(view, ComputeLoads(view, elephants.commodities, paths)),
          ComputeLowerBound(view, elephants.commodities)};
}

void Placement::VerifyPorts(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.status != FlowStatus::kRouted) return;
  for (const FlowWay& way : flow.ways) {
    const auto entry = state_.path_map.Find(flow.key, way.port);
    if (entry && entry->trust != fabric::PortTrust::kVerified) {
      learner_.Verify(flow.key, way.port);
    }
  }
}

std::vector<Placement::Rerouted> Placement::HandleLinkChange() {
  std::vector<FlowSlot> broken = state_.flows.All();
  std::erase_if(broken, [&](FlowSlot slot) { return !IsOnBrokenPath(state_.flows.At(slot)); });
  broken = InOrder(std::move(broken));
  std::vector<Rerouted> moves;
  moves.reserve(broken.size());
  for (const FlowSlot slot : broken) {
    moves.push_back(BeginMove(slot));
    GiveUpUnusable(state_.flows.At(slot));
  }
  // Where a flow is being adopted its other ways wait for that.
  std::vector<FlowSlot> to_place = broken;
  std::erase_if(to_place, [&](FlowSlot slot) {
    return state_.flows.At(slot).status == FlowStatus::kAdopting;
  });
  FindPaths(to_place, 0);
  for (const FlowSlot slot : to_place) {
    state_.flows.At(slot).origin = PlanOrigin::kReactive;
    const bool urgent = std::ranges::any_of(state_.flows.At(slot).ways, &FlowWay::urgent);
    Settle(slot, urgent ? PathReason::kPathDead : PathReason::kRecomputed);
    SetLive(state_.flows.At(slot));
  }
  for (Rerouted& moved : moves) EndMove(moved);
  return moves;
}

Placement::PathsBySlot Placement::PathsAfter(const fabric::Topology& trial, FabricView& view) {
  LivePaths live(view);
  const auto add = [&](const Flow& flow) {
    const std::int64_t load = flow.tree_load != 0 ? flow.tree_load : kLoadUnit;
    return live.Add(*view.LeafOf(flow.source_leaf), *view.LeafOf(flow.destination_leaf),
                    load / static_cast<std::int64_t>(flow.ways.size()));
  };
  const auto usable_path = [&](const Flow& flow, const FlowWay& way) {
    const auto path = state_.PathOf(way);
    return path && fabric::IsUsable(trial, state_.PathsOf(flow)[path->Index()]) ? path
                                                                                : std::nullopt;
  };
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    for (const FlowWay& way : flow.ways) {
      const auto path = usable_path(flow, way);
      if (!path) continue;
      const LivePaths::Way placed = add(flow);
      live.Place(placed, path->value());
      live.SetLive(placed);
      live.Pin(placed, !flow.movable || flow.tree_load != 0);
    }
  }
  std::vector<FlowSlot> broken = state_.flows.All();
  std::erase_if(broken,
                [&](FlowSlot slot) { return !IsOnBrokenPath(state_.flows.At(slot), trial); });
  broken = InOrder(std::move(broken));
  const auto is_to_place = [&](const Flow& flow, const FlowWay& way) {
    return !way.adopting && flow.status != FlowStatus::kAdopting && !usable_path(flow, way);
  };
  std::vector<LivePaths::Way> to_place;
  for (const FlowSlot slot : broken) {
    const Flow& flow = state_.flows.At(slot);
    for (const FlowWay& way : flow.ways) {
      if (is_to_place(flow, way)) to_place.push_back(add(flow));
    }
  }
  live.StartAll(to_place, ChainOptions(options_, 0));
  PathsBySlot after;
  auto next = to_place.begin();
  for (const FlowSlot slot : broken) {
    const Flow& flow = state_.flows.At(slot);
    for (const FlowWay& way : flow.ways) {
      const auto path = usable_path(flow, way);
      after[slot].push_back(path                     ? path->value()
                            : is_to_place(flow, way) ? live.PathOf(*next++)
                                                     : kNoPath);
    }
  }
  return after;
}

Placement::Recomputation Placement::TryLinkChange(const fabric::Topology& trial,
                                                  const IntentById* new_weights) {
  FabricView view(trial, state_.paths);
  PathsBySlot after = PathsAfter(trial, view);
  const auto has_paths = [&](FlowSlot slot) {
    const auto moved = after.find(slot);
    if (moved == after.end()) return state_.HasPaths(state_.flows.At(slot));
    return std::ranges::find(moved->second, kNoPath) == moved->second.end();
  };
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) { return !has_paths(slot); });
  const Elephants elephants = DescribeElephants(state_, InOrder(std::move(slots)));
  Assignment paths = CurrentPaths(state_, elephants);
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const auto moved = after.find(elephants.slots[i]);
    if (moved != after.end())
      std::ranges::copy(moved->second, paths.paths.begin() + paths.first[i]);
  }
  const auto loads = [&] { return ComputeLoads(view, elephants.commodities, paths); };
  paths.max_load = ComputeMaxLoad(view, loads());
  if (new_weights != nullptr) {
    Reassigner reassigner(state_, view, options_);
    const auto better =
        reassigner.FindBetter(elephants, paths, WeightsOf(state_.flows.jobs().All(), *new_weights));
    for (std::size_t i = 0; better && i < elephants.slots.size(); ++i) {
      const auto ways = better->PathsOf(i);
      if (!std::ranges::equal(ways, paths.PathsOf(i))) {
        after[elephants.slots[i]].assign(ways.begin(), ways.end());
      }
    }
    if (better) paths.max_load = better->max_load;
  }
  Recomputation result{.before = Summarize(state_),
                       .after = {paths.max_load, ComputeLowerBound(view, elephants.commodities)}};
  std::vector<FlowSlot> moved;
  for (const auto& [slot, ways] : after) moved.push_back(slot);
  for (const FlowSlot slot : InOrder(std::move(moved))) {
    const Flow& flow = state_.flows.At(slot);
    std::vector<std::int32_t> ways = after[slot];
    std::erase(ways, kNoPath);
    FlowMove move = DescribeMove(slot, state_.Via(flow));
    move.to = state_.Via(flow, ways);
    result.moves.push_back(std::move(move));
  }
  return result;
}

Placement::Recomputation Placement::Recompute(const IntentById& weights, bool dry_run,
                                              std::int64_t max_moved_bytes) {
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) { return !state_.HasPaths(state_.flows.At(slot)); });
  const Elephants elephants = DescribeElephants(state_, InOrder(std::move(slots)));
  const Assignment present = CurrentPaths(state_, elephants);
  const Load bound = ComputeLowerBound(state_.view, elephants.commodities);
  const std::vector<std::uint32_t> job_weights = WeightsOf(state_.flows.jobs().All(), weights);
  Recomputation result{.before = {present.max_load, bound}, .after = {present.max_load, bound}};
  const auto anew = reassigner_.FindBetter(elephants, present, job_weights, max_moved_bytes);
  if (!anew) return result;
  result.after.max_load = anew->max_load;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    if (std::ranges::equal(present.PathsOf(i), anew->PathsOf(i))) continue;
    const FlowSlot slot = elephants.slots[i];
    Flow& flow = state_.flows.At(slot);
    FlowMove move = DescribeMove(slot, state_.Via(flow));
    move.to = state_.Via(flow, anew->PathsOf(i));
    move.bytes_in_flight = reassigner_.MovedBytes(elephants, i, present, *anew);
    result.moves.push_back(std::move(move));
    if (dry_run) continue;
    for (std::size_t way = 0; way < flow.ways.size(); ++way) {
      PlaceWay(flow.ways[way], anew->PathsOf(i)[way]);
    }
    flow.origin = PlanOrigin::kManual;
    ChoosePorts(slot, PathReason::kRecomputed);
  }
  return result;
}

}  // namespace espalier::controller
