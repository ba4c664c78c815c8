// Moves of flows that live: off paths that broke, and by an assignment of all.
#include <algorithm>
#include <map>
#include <utility>

#include "controller/placement.h"
#include "controller/policies.h"
#include "controller/routing/load_bounds.h"

namespace espalier::controller {

using wire::PathReason;

FlowMove Placement::DescribeMove(FlowSlot slot, std::string from) {
  const Flow& flow = state_.flows.At(slot);
  return {state_.FlowName(flow), state_.flows.JobName(flow.job), std::move(from), state_.Via(flow),
          BytesInFlight(slot)};
}

std::int64_t Placement::BytesInFlight(FlowSlot slot) const {
  return static_cast<std::int64_t>(state_.flows.ActivityOf(slot).outstanding_bytes);
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

std::vector<FlowSlot> Placement::FlowsOnBrokenPaths(const fabric::Topology& topology) {
  std::vector<FlowSlot> broken;
  for (const FlowSlot slot : state_.flows.All()) {
    if (IsOnBrokenPath(state_.flows.At(slot), topology)) broken.push_back(slot);
  }
  return InOrder(std::move(broken));
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

std::vector<FlowMove> Placement::TakeFailurePlan(FailurePlans& plans, FailurePlans::Element element,
                                                 std::span<const LivePaths::Way> stranded) {
  std::map<FlowSlot, std::string> before;  // where the flows that move were
  for (const LivePaths::Way stranded_way : stranded) {
    const State::WayOwner owner = state_.owners[stranded_way];
    Flow& flow = state_.flows.At(owner.slot);
    FlowWay& way = flow.ways[owner.index];
    const auto path = plans.PathFor(element, stranded_way);
    if (!path || way.adopting) continue;
    before.try_emplace(owner.slot, state_.Via(flow));
    const fabric::PathIndex in_use = way.port != 0 ? way.port_path : *state_.PathOf(way);
    way.urgent = !fabric::IsAlive(state_.topology, state_.PathsOf(flow)[in_use.Index()]);
    PlaceWay(way, *path);
  }
  std::vector<FlowMove> moves;
  for (auto& [slot, from] : before) {
    Flow& flow = state_.flows.At(slot);
    flow.origin = PlanOrigin::kFailure;
    const bool urgent = std::ranges::any_of(flow.ways, &FlowWay::urgent);
    if (flow.status != FlowStatus::kAdopting) {
      ChoosePorts(slot, urgent ? PathReason::kPathDead : PathReason::kRecomputed);
    }
    moves.push_back(DescribeMove(slot, std::move(from)));
  }
  return moves;
}

std::vector<FlowMove> Placement::HandleLinkChange() {
  const std::vector<FlowSlot> broken = FlowsOnBrokenPaths(state_.topology);
  std::vector<std::string> before;
  for (const FlowSlot slot : broken) {
    before.push_back(state_.Via(state_.flows.At(slot)));
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
  std::vector<FlowMove> moves;
  for (std::size_t i = 0; i < broken.size(); ++i) {
    moves.push_back(DescribeMove(broken[i], std::move(before[i])));
  }
  return moves;
}

std::vector<FlowMove> Placement::TryLinkChange(const fabric::Topology& trial) {
  FabricView view(trial, state_.paths);
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
  const std::vector<FlowSlot> broken = FlowsOnBrokenPaths(trial);
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
  std::vector<FlowMove> moves;
  auto next = to_place.begin();
  for (const FlowSlot slot : broken) {
    const Flow& flow = state_.flows.At(slot);
    std::vector<std::int32_t> paths;
    for (const FlowWay& way : flow.ways) {
      const auto path = usable_path(flow, way);
      const std::int32_t index = path                     ? path->value()
                                 : is_to_place(flow, way) ? live.PathOf(*next++)
                                                          : kNoPath;
      if (index >= 0) paths.push_back(index);
    }
    moves.push_back({state_.FlowName(flow), state_.flows.JobName(flow.job), state_.Via(flow),
                     state_.Via(flow, paths), BytesInFlight(slot)});
  }
  return moves;
}

Assignment Placement::AssignAnew(const Elephants& elephants,
                                 std::span<const std::uint32_t> job_weights) {
  Assignment assignment =
      options_.algorithm == Algorithm::kGreedy
          ? assigner_.Greedy(elephants.commodities)
          : assigner_.Optimal(elephants.commodities, {.job_weights = job_weights});
  // Flows that cannot move stay, whatever that costs.
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const Flow& flow = state_.flows.At(elephants.slots[i]);
    if (flow.movable) continue;
    for (std::size_t way = 0; way < flow.ways.size(); ++way) {
      assignment.paths[assignment.first[i] + way] = state_.PathOf(flow.ways[way])->value();
    }
  }
  assignment.max_load =
      ComputeMaxLoad(state_.view, ComputeLoads(state_.view, elephants.commodities, assignment));
  return assignment;
}

void Placement::KeepWays(const Assignment& present, Assignment& anew) {
  for (std::size_t i = 0; i + 1 < anew.first.size(); ++i) {
    const auto ways = std::span(anew.paths).subspan(anew.first[i], anew.PathsOf(i).size());
    for (std::size_t way = 0; way < ways.size(); ++way) {
      const std::int32_t old = present.PathsOf(i)[way];
      const auto same = std::ranges::find(ways, old);
      if (same != ways.end() && ways[way] != old) std::swap(*same, ways[way]);
    }
  }
}

std::int64_t Placement::MovedBytes(const Elephants& elephants, std::size_t index,
                                   const Assignment& from, const Assignment& to) const {
  const auto before = from.PathsOf(index);
  const auto after = to.PathsOf(index);
  std::int64_t moving = 0;
  for (std::size_t way = 0; way < before.size(); ++way) moving += before[way] != after[way] ? 1 : 0;
  return BytesInFlight(elephants.slots[index]) * moving / static_cast<std::int64_t>(before.size());
}

std::int64_t Placement::MovedBytes(const Elephants& elephants, const Assignment& from,
                                   const Assignment& to) const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    bytes += MovedBytes(elephants, i, from, to);
  }
  return bytes;
}

void Placement::KeepSpines(const Elephants& elephants, const Assignment& present,
                           Assignment& anew) const {
  const auto& clos = state_.view.clos();
  const bool are_alike = clos && clos->all_known && clos->equal_rates &&
                         clos->up_live == clos->up_known && clos->down_live == clos->down_known;
  const bool all_can_move = std::ranges::all_of(
      elephants.slots, [&](FlowSlot slot) { return state_.flows.At(slot).movable; });
  if (!are_alike || !all_can_move) return;
  // What stays where it is if a spine of the new assignment becomes one of the present one; flows
  // count where nothing is in flight.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> kept;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const auto before = present.PathsOf(i);
    const auto after = anew.PathsOf(i);
    const auto ways = static_cast<std::int64_t>(after.size());
    for (std::size_t way = 0; way < after.size(); ++way) {
      kept[{after[way], before[way]}] += 1 + BytesInFlight(elephants.slots[i]) / ways;
    }
  }
  std::vector<std::pair<std::int64_t, std::pair<std::int32_t, std::int32_t>>> most;
  for (const auto& [spines, bytes] : kept) most.emplace_back(-bytes, spines);
  std::sort(most.begin(), most.end());
  std::vector<std::int32_t> becomes(clos->spines, kNoPath);
  std::vector<bool> is_taken(clos->spines);
  const auto take = [&](std::int32_t from, std::int32_t to) {
    becomes[static_cast<std::size_t>(from)] = to;
    is_taken[static_cast<std::size_t>(to)] = true;
  };
  for (const auto& [bytes, spines] : most) {
    const auto [from, to] = spines;
    const bool are_free = becomes[static_cast<std::size_t>(from)] == kNoPath &&
                          !is_taken[static_cast<std::size_t>(to)];
    if (are_free) take(from, to);
  }
  std::int32_t next = 0;
  for (std::int32_t spine = 0; spine < static_cast<std::int32_t>(clos->spines); ++spine) {
    if (becomes[static_cast<std::size_t>(spine)] != kNoPath) continue;
    while (is_taken[static_cast<std::size_t>(next)]) ++next;
    take(spine, next);
  }
  for (std::int32_t& path : anew.paths) path = becomes[static_cast<std::size_t>(path)];
}

Assignment Placement::Repair(const Elephants& elephants, const Assignment& present,
                             std::int64_t max_moved_bytes) {
  constexpr std::int64_t kSteps = 2'000'000;  // about 20 ms
  std::vector<std::int64_t> bytes;            // by way
  LivePaths live(state_.view, [&bytes](LivePaths::Way way) { return bytes[way]; });
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const Commodity& commodity = elephants.commodities[i];
    for (const std::int32_t path : present.PathsOf(i)) {
      const auto way =
          live.Add(commodity.source, commodity.destination, kLoadUnit / commodity.ways);
      bytes.push_back(BytesInFlight(elephants.slots[i]) / commodity.ways);
      live.Place(way, path);
      live.SetLive(way);
      live.Pin(way, !state_.flows.At(elephants.slots[i]).movable);
    }
  }
  live.Rebalance(
      {.max_moves = bytes.size(), .max_moved_bytes = max_moved_bytes, .step_budget = kSteps});
  Assignment repaired = present;
  for (LivePaths::Way way = 0; way < bytes.size(); ++way) repaired.paths[way] = live.PathOf(way);
  repaired.max_load = live.MaxLoad();
  return repaired;
}

Assignment Placement::ChooseAnew(const Elephants& elephants,
                                 std::span<const std::uint32_t> job_weights,
                                 const Assignment& present, std::int64_t max_moved_bytes) {
  Assignment anew = AssignAnew(elephants, job_weights);
  KeepSpines(elephants, present, anew);
  KeepWays(present, anew);
  Assignment repaired = Repair(elephants, present, max_moved_bytes);
  const bool may_be = MovedBytes(elephants, present, anew) <= max_moved_bytes;
  const bool is_asked_for = options_.algorithm == Algorithm::kGreedy;
  const bool takes_anew =
      may_be && (is_asked_for || IsWorthMoving(elephants, job_weights, repaired, anew));
  return takes_anew ? anew : repaired;
}

bool Placement::IsWorthMoving(const Elephants& elephants,
                              std::span<const std::uint32_t> job_weights, const Assignment& from,
                              const Assignment& to) {
  if (from.max_load != to.max_load) return to.max_load < from.max_load;
  const auto score = [&](const Assignment& assignment) {
    return ComputeScore(elephants.commodities, rates_.Predict(elephants.commodities, assignment),
                        job_weights, false);
  };
  const Score present = score(from);
  return IsBetter(score(to), present);
}

Placement::Recomputation Placement::Recompute(const IntentById& weights, bool dry_run,
                                              std::int64_t max_moved_bytes) {
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) { return !state_.HasPaths(state_.flows.At(slot)); });
  const Elephants elephants = DescribeElephants(state_, InOrder(std::move(slots)));
  const Assignment present = CurrentPaths(state_, elephants);
  const Load bound = ComputeLowerBound(state_.view, elephants.commodities);
  const std::vector<std::uint32_t> job_weights = WeightsOf(state_.flows.jobs(), weights);
  const Assignment anew = ChooseAnew(elephants, job_weights, present, max_moved_bytes);

  Recomputation result{.before = {present.max_load, bound}, .after = {present.max_load, bound}};
  if (!IsWorthMoving(elephants, job_weights, present, anew)) return result;
  result.after.max_load = anew.max_load;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    if (std::ranges::equal(present.PathsOf(i), anew.PathsOf(i))) continue;
    const FlowSlot slot = elephants.slots[i];
    Flow& flow = state_.flows.At(slot);
    FlowMove move = DescribeMove(slot, state_.Via(flow));
    move.to = state_.Via(flow, anew.PathsOf(i));
    move.bytes_in_flight = MovedBytes(elephants, i, present, anew);
    result.moves.push_back(std::move(move));
    if (dry_run) continue;
    for (std::size_t way = 0; way < flow.ways.size(); ++way) {
      PlaceWay(flow.ways[way], anew.PathsOf(i)[way]);
    }
    flow.origin = PlanOrigin::kManual;
    ChoosePorts(slot, PathReason::kRecomputed);
  }
  return result;
}

}  // namespace espalier::controller
