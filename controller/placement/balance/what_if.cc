#include "controller/placement/balance/what_if.h"

#include <algorithm>
#include <utility>

#include "controller/placement/arrivals/arrival_placer.h"
#include "controller/placement/failures/steering_switch.h"
#include "controller/placement/ports/reachable_paths.h"
#include "controller/settings/policies.h"

namespace espalier::controller {

using wire::PathReason;

namespace {

std::optional<bool> ChangeOf(const std::map<FlowSlot, bool>& steering, FlowSlot slot) {
  const auto found = steering.find(slot);
  return found == steering.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

// Problem: a dry run must tell exactly what a change of links would do, and leave all state alone.
// Idea: PathsAfter copies base loads and all usable paths of flows and edges into an OnlineAssigner
// of its own, on a view of the trial fabric, and places the broken subflows there in the order and
// by the options that Rerouter uses. Recomputation is shared with the real one: it reads
// assignments by value. Invariant: IsOnBrokenPath, the order and the placing must stay the same as
// in Rerouter. Cost: O(flows x subflows + links) besides placing.

bool WhatIf::IsOnBrokenPath(FlowSlot slot, const fabric::Topology& topology) const {
  if (!decisions_.MayMove(slot, Mover::kFailure)) return false;
  const Flow& flow = state_.flows.At(slot);
  const auto paths = state_.PathsOf(flow);
  return std::ranges::any_of(flow.subflows, [&](const Subflow& subflow) {
    if (subflow.adopting) return false;
    // The port may still take the path before the decided one.
    if (subflow.port != 0 && !fabric::IsAlive(topology, paths[subflow.port_path.Index()])) {
      return true;
    }
    const auto path = state_.flow_paths.PathOf(subflow);
    return path && !fabric::IsUsable(topology, paths[path->Index()]);
  });
}

WhatIf::SteeringBySlot WhatIf::SteeringChanges(const IntentById& steering) const {
  SteeringBySlot changes;
  if (steering == state_.intents.steering) return changes;
  const SteeringRules rules = state_.Steering(steering);
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (!IsSteerable(flow)) continue;
    const bool will_be =
        rules.IsSteered(state_.agents.At(flow.agent).name, state_.flows.JobName(flow.job)) &&
        !state_.IsSprayed(flow);
    if (will_be != (flow.status != FlowStatus::kUnsteered)) changes.emplace(slot, will_be);
  }
  return changes;
}

WhatIf::PathsBySlot WhatIf::PathsAfter(const fabric::Topology& trial, FabricView& view,
                                       const SteeringBySlot& steering) const {
  OnlineAssigner live(view);
  live.SetBaseLoads(state_.flow_paths.assigner().base_loads());
  const auto add = [&](const Flow& flow, const Subflow& subflow) {
    return live.Add(*view.LeafOf(flow.source_leaf), *view.LeafOf(flow.destination_leaf),
                    ShareOf(flow, subflow));
  };
  const auto change_of = [&](FlowSlot slot) { return ChangeOf(steering, slot); };
  const auto usable_path = [&](FlowSlot slot, const Subflow& subflow) {
    const Flow& flow = state_.flows.At(slot);
    const auto change = change_of(slot);
    if (change == true) return std::optional<fabric::PathIndex>();
    if (change == false) return OwnPathOf(state_, flow, trial);
    const auto path = state_.flow_paths.PathOf(subflow);
    return path && fabric::IsUsable(trial, state_.PathsOf(flow)[path->Index()]) ? path
                                                                                : std::nullopt;
  };
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.is_parked && !change_of(slot)) continue;
    for (const Subflow& subflow : flow.subflows) {
      const auto path = usable_path(slot, subflow);
      if (!path) continue;
      const SubflowId placed = add(flow, subflow);
      live.Place(placed, path->value());
      live.SetInProgress(placed);
      live.Pin(placed, !decisions_.MayMove(slot, Mover::kChain) || change_of(slot) == false);
    }
  }
  for (const auto& [name, edge] : state_.edges.all()) {
    if (!fabric::IsUsable(trial, state_.PathOf(edge))) continue;
    const SubflowId placed =
        live.Add(*view.LeafOf(edge.source_leaf), *view.LeafOf(edge.destination_leaf), edge.load);
    live.Place(placed, edge.path.value());
    live.SetInProgress(placed);
    live.Pin(placed, true);
  }
  std::vector<FlowSlot> broken = state_.flows.All();
  std::erase_if(broken,
                [&](FlowSlot slot) { return !change_of(slot) && !IsOnBrokenPath(slot, trial); });
  broken = InOrder(state_, std::move(broken));
  const auto is_to_place = [&](FlowSlot slot, const Subflow& subflow) {
    if (const auto change = change_of(slot)) return *change;
    return !subflow.adopting && state_.flows.At(slot).status != FlowStatus::kAdopting &&
           !usable_path(slot, subflow);
  };
  std::vector<SubflowId> to_place;
  for (const FlowSlot slot : broken) {
    const Flow& flow = state_.flows.At(slot);
    for (const Subflow& subflow : flow.subflows) {
      if (is_to_place(slot, subflow)) to_place.push_back(add(flow, subflow));
    }
  }
  live.PlaceArrivals(to_place, ChainOptions(options_, 0));
  PathsBySlot after;
  auto next = to_place.begin();
  for (const FlowSlot slot : broken) {
    for (const Subflow& subflow : state_.flows.At(slot).subflows) {
      const auto path = usable_path(slot, subflow);
      after[slot].push_back(path                         ? path->value()
                            : is_to_place(slot, subflow) ? live.PathOf(*next++)
                                                         : kNoPath);
    }
  }
  return after;
}

ReachCounts WhatIf::ReachAfter(const fabric::Topology& trial, const PathsBySlot& after,
                               const SteeringBySlot& steering) const {
  ReachCounts counts;
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    const auto change = steering.find(slot);
    if (change != steering.end() && !change->second) {
      counts.Add(ReachUnsteered(state_, trial, flow));
      continue;
    }
    const auto moved = after.find(slot);
    if (moved != after.end() && flow.status != FlowStatus::kAdopting) {
      const bool is_lost = std::ranges::find(moved->second, kNoPath) != moved->second.end();
      counts.Add(is_lost ? Reach::kWithoutPath : ReachOfEnds(state_, trial, flow.key));
      continue;
    }
    const auto is_usable = [&](const fabric::Path& path) { return fabric::IsUsable(trial, path); };
    const bool is_placed_again = flow.status == FlowStatus::kUnroutable && !flow.subflows.empty() &&
                                 std::ranges::any_of(state_.PathsOf(flow), is_usable);
    counts.Add(is_placed_again ? ReachOfEnds(state_, trial, flow.key)
                               : ReachOf(state_, trial, flow));
  }
  // Forests on links that fail are replaced, which leaves only the links of NICs.
  for (const auto& [name, edge] : state_.edges.all()) {
    counts.Add(ReachOfEnds(state_, trial, edge.key));
  }
  return counts;
}

Recomputation WhatIf::TryChange(const fabric::Topology& trial, const IntentById& steering,
                                const IntentById* new_weights) const {
  FabricView view(trial, state_.paths);
  const SteeringBySlot steering_changes = SteeringChanges(steering);
  PathsBySlot after = PathsAfter(trial, view, steering_changes);
  const auto has_paths = [&](FlowSlot slot) {
    const auto moved = after.find(slot);
    if (moved == after.end()) return state_.HasPaths(state_.flows.At(slot));
    return std::ranges::find(moved->second, kNoPath) == moved->second.end();
  };
  const auto counts = [&](FlowSlot slot) {
    const Flow& flow = state_.flows.At(slot);
    const bool pauses = flow.is_answering || (flow.is_parked && state_.phases.Of(slot).empty());
    return (!pauses || steering_changes.contains(slot)) && has_paths(slot);
  };
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) { return !counts(slot); });
  Elephants elephants = DescribeElephants(state_, InOrder(state_, std::move(slots)));
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const auto change = steering_changes.find(elephants.slots[i]);
    if (change == steering_changes.end()) continue;
    elephants.can_move[i] = change->second && state_.flows.At(elephants.slots[i]).movable;
  }
  Assignment paths = CurrentPaths(state_, elephants);
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const auto moved = after.find(elephants.slots[i]);
    if (moved != after.end())
      std::ranges::copy(moved->second, paths.paths.begin() + paths.first[i]);
  }
  paths.max_load = MaxLoadOf(view, elephants, paths);
  if (new_weights != nullptr) {
    Reassigner reassigner(state_, view, options_);
    const auto better =
        FindBetter(reassigner, view, elephants, paths,
                   WeightsOf(state_.flows.jobs().All(), *new_weights), Reassigner::kNoLimit);
    for (std::size_t i = 0; better && i < elephants.slots.size(); ++i) {
      const auto subflows = better->PathsOf(i);
      if (!std::ranges::equal(subflows, paths.PathsOf(i))) {
        after[elephants.slots[i]].assign(subflows.begin(), subflows.end());
      }
    }
    if (better) paths = *better;
  }
  LoadSummary summary = SummarizePaths(state_, view, elephants, paths);
  summary.reach = ReachAfter(trial, after, steering_changes);
  summary.left_out = CountLeftOut(state_);
  for (const auto& [slot, is_steered] : steering_changes) {
    summary.left_out.unsteered += is_steered ? -1 : 1;
  }
  return {.moves = DescribeMoves(after, steering_changes),
          .before = Summarize(state_),
          .after = summary};
}

std::vector<FlowMove> WhatIf::DescribeMoves(const PathsBySlot& after,
                                            const SteeringBySlot& steering) const {
  std::vector<FlowSlot> moved;
  for (const auto& [slot, subflows] : after) moved.push_back(slot);
  std::vector<FlowMove> moves;
  for (const FlowSlot slot : InOrder(state_, std::move(moved))) {
    const Flow& flow = state_.flows.At(slot);
    std::vector<std::int32_t> subflows = after.at(slot);
    std::erase(subflows, kNoPath);
    const auto change = steering.find(slot);
    if (change != steering.end() && !change->second) subflows.clear();  // on ECMP
    FlowMove move = DescribeMove(state_, slot, state_.Via(flow));
    move.to = state_.Via(flow, subflows);
    moves.push_back(std::move(move));
  }
  return moves;
}

std::optional<Assignment> WhatIf::FindBetter(Reassigner& reassigner, const FabricView& view,
                                             const Elephants& elephants, const Assignment& present,
                                             std::span<const std::uint32_t> job_weights,
                                             std::int64_t max_moved_bytes) const {
  if (state_.phases.IsEmpty()) {
    return reassigner.FindBetter(elephants, present, job_weights, max_moved_bytes);
  }
  const AroundPhases around = DescribeAroundPhases(state_, view, elephants, present);
  const auto better =
      reassigner.FindBetter(around.elephants, around.paths, job_weights, max_moved_bytes);
  if (!better) return std::nullopt;
  Assignment merged = present;
  merged.shares.clear();
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    for (std::size_t entry = present.first[i]; entry < present.first[i + 1]; ++entry) {
      merged.shares.push_back(present.ShareOf(elephants.commodities[i], entry));
    }
  }
  for (std::size_t k = 0; k < around.places.size(); ++k) {
    const std::size_t first = merged.first[around.places[k]];
    for (std::size_t entry = better->first[k]; entry < better->first[k + 1]; ++entry) {
      const std::size_t place = first + entry - better->first[k];
      merged.paths[place] = better->paths[entry];
      merged.shares[place] = better->ShareOf(around.elephants.commodities[k], entry);
    }
  }
  merged.max_load = MaxLoadOf(view, elephants, merged);
  return merged;
}

Recomputation WhatIf::Recompute(const IntentById& weights, bool dry_run,
                                std::int64_t max_moved_bytes) {
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(
      slots, [&](FlowSlot slot) { return !CountsInSummary(state_, state_.flows.At(slot), slot); });
  const Elephants elephants = DescribeElephants(state_, InOrder(state_, std::move(slots)));
  const Assignment present = CurrentPaths(state_, elephants);
  const std::vector<std::uint32_t> job_weights = WeightsOf(state_.flows.jobs().All(), weights);
  const LoadSummary before = Summarize(state_);
  Recomputation result{.moves = {}, .before = before, .after = before};
  const auto from_scratch =
      FindBetter(reassigner_, state_.view, elephants, present, job_weights, max_moved_bytes);
  if (!from_scratch) return result;
  result.after.max_load =
      ComputeMaxLoad(state_.view, BusiestLoads(state_, state_.view, elephants, *from_scratch));
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const bool keeps_paths = std::ranges::equal(present.PathsOf(i), from_scratch->PathsOf(i));
    if (keeps_paths && HasSameShares(elephants.commodities[i], i, present, *from_scratch)) continue;
    const FlowSlot slot = elephants.slots[i];
    const Flow& flow = state_.flows.At(slot);
    if (!keeps_paths) {
      result.leads_astray |= std::ranges::any_of(from_scratch->PathsOf(i), [&](std::int32_t path) {
        return path != kNoPath && IsUnreachable(state_, flow, path);
      });
      FlowMove move = DescribeMove(state_, slot, state_.Via(flow));
      move.to = state_.Via(flow, from_scratch->PathsOf(i));
      move.bytes_in_flight = reassigner_.MovedBytes(elephants, i, present, *from_scratch);
      result.moves.push_back(std::move(move));
    }
    if (dry_run) continue;
    decisions_.Divide(slot, from_scratch->SharesOf(i), false);
    for (std::uint32_t subflow = 0; subflow < flow.subflows.size(); ++subflow) {
      decisions_.Place(slot, subflow, from_scratch->PathsOf(i)[subflow]);
    }
    decisions_.SetOrigin(slot, DecisionOrigin::kManual);
    ports_.ChoosePorts(slot, PathReason::kRecomputed);
  }
  return result;
}

}  // namespace espalier::controller
