#include "controller/placement/start_placer.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {

using wire::PathReason;

namespace {

constexpr std::size_t kMostEndsRepaired = 256;  // before one assignment

}  // namespace

std::vector<FlowSlot> InOrder(const State& state, std::vector<FlowSlot> slots) {
  const auto comes_before = [&](FlowSlot a, FlowSlot b) {
    const Flow& x = state.flows.At(a);
    const Flow& y = state.flows.At(b);
    if (x.job != y.job) return state.flows.JobName(x.job) < state.flows.JobName(y.job);
    if (x.agent == y.agent) return x.local < y.local;
    return state.agents.At(x.agent).name < state.agents.At(y.agent).name;
  };
  std::sort(slots.begin(), slots.end(), comes_before);
  return slots;
}

std::set<FlowSlot> StartPlacer::FindPaths(std::span<const FlowSlot> slots, std::size_t most_moves) {
  FlowPaths& paths = state_.flow_paths;
  for (const FlowSlot slot : slots) {
    const std::vector<FlowWay>& ways = state_.flows.At(slot).ways;
    for (std::uint32_t i = 0; i < ways.size(); ++i) {
      if (!ways[i].way && !ways[i].adopting) paths.Add(slot, i);
    }
  }
  std::vector<LivePaths::Way> to_place;
  for (const FlowSlot slot : slots) {
    for (const FlowWay& way : state_.flows.At(slot).ways) {
      if (!paths.PathOf(way) && !way.adopting) to_place.push_back(*way.way);
    }
  }
  std::set<FlowSlot> others;
  for (const LivePaths::Move& move : paths.StartAll(to_place, ChainOptions(options_, most_moves))) {
    if (move.from != kNoPath) others.insert(paths.FlowOf(move.way));
  }
  for (const LivePaths::Way way : to_place) {
    const FlowPaths::Owner owner = paths.OwnerOf(way);
    FlowWay& placed = state_.flows.At(*owner.slot).ways[owner.index];
    if (!paths.PathOf(placed)) paths.Remove(placed);
  }
  for (const FlowSlot slot : slots) others.erase(slot);
  return others;
}

std::set<FlowSlot> StartPlacer::Relieve(std::size_t most_moves) {
  std::set<FlowSlot> moved;
  for (const LivePaths::Move& move :
       state_.flow_paths.Rebalance(ChainOptions(options_, most_moves))) {
    moved.insert(state_.flow_paths.FlowOf(move.way));
  }
  return moved;
}

bool StartPlacer::TakePlanned(FlowSlot slot, const Foresight::Planned& planned,
                              std::set<FlowSlot>& others) {
  FlowPaths& paths = state_.flow_paths;
  for (const LivePaths::Move& move : planned.moves) others.insert(paths.FlowOf(move.way));
  paths.Take(planned.moves);
  Flow& flow = state_.flows.At(slot);
  bool is_within = true;
  for (std::uint32_t i = 0; i < flow.ways.size(); ++i) {
    paths.Add(slot, i);
    paths.Place(flow.ways[i], planned.paths[i]);
    is_within = is_within && (planned.holds || paths.live().IsWithinLimits(*flow.ways[i].way));
  }
  if (is_within) {
    flow.origin = PlanOrigin::kPredicted;
    return true;
  }
  for (FlowWay& way : flow.ways) paths.Remove(way);
  return false;
}

std::vector<FlowSlot> StartPlacer::TakeNew() {
  std::vector<FlowSlot> slots;
  for (const FlowSlot slot : state_.flows.TakeNew()) {
    if (state_.flows.IsOpen(slot) && state_.flows.At(slot).status == FlowStatus::kNew) {
      slots.push_back(slot);
    }
  }
  slots = InOrder(state_, std::move(slots));
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

StartPlacer::Placed StartPlacer::PlaceNew(Foresight& foresight, std::size_t most_moves) {
  const std::vector<FlowSlot> slots = TakeNew();
  Placed placed{.flows = slots.size()};
  std::set<FlowSlot> others;
  std::vector<FlowSlot> unplanned;
  for (const FlowSlot slot : slots) {
    const Flow& flow = state_.flows.At(slot);
    const bool is_bare =
        std::ranges::none_of(flow.ways, [](const FlowWay& way) { return way.way || way.adopting; });
    const auto planned = is_bare ? foresight.Find(slot) : std::nullopt;
    if (planned && TakePlanned(slot, *planned, others)) {
      foresight.Confirm(*planned);
      ++placed.planned;
    } else {
      unplanned.push_back(slot);
    }
  }
  for (const FlowSlot slot : unplanned) {
    foresight.CountMiss(slot);
    state_.flows.At(slot).origin = PlanOrigin::kReactive;
  }
  others.merge(FindPaths(unplanned, most_moves));
  const std::size_t changes = slots.size() + std::min(std::exchange(ends_, 0), kMostEndsRepaired);
  if (others.size() < most_moves * changes) {
    others.merge(Relieve(most_moves * changes - others.size()));
  }
  for (const FlowSlot slot : slots) {
    others.erase(slot);
    ports_.Settle(slot, PathReason::kAssigned);
    state_.flow_paths.SetLive(state_.flows.At(slot));
  }
  for (const FlowSlot slot : others) ports_.ChoosePorts(slot, PathReason::kRecomputed);
  placed.moved = others.size();
  return placed;
}

}  // namespace espalier::controller
