#include "controller/routing/occupancy/occupancy.h"

#include <algorithm>

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

// What part of the steps PathSearch may take where chains on the tiers have failed: it helps where
// links are dead or shares differ.
constexpr std::int64_t kPartAfterChains = 10;

}  // namespace

void Occupancy::Clear() {
  subflows_.Clear();
  links_.Clear();
  chains_.Clear();
  tier_chains_.Clear();
  search_.Clear();
}

std::int32_t Occupancy::LeastLoadedPath(SubflowId subflow) const {
  const SubflowState& state = subflows_[subflow];
  const auto capacities = view_.capacities();
  std::int32_t best = kNoPath;
  std::int64_t best_load = 0;
  std::int64_t best_capacity = 1;
  const std::int32_t routes = subflows_.RouteCount(state);
  for (std::int32_t route = 0; route < routes; ++route) {
    if (!subflows_.IsUsable(state, route)) continue;
    std::int64_t load = 0;
    std::int64_t capacity = 1;
    for (const std::uint32_t link : subflows_.LinksOf(state, route)) {
      const std::int64_t with = links_.LoadOf(link) + state.share;
      if (Wide{with} * capacity <= Wide{load} * capacities[link]) continue;
      load = with;
      capacity = capacities[link];
    }
    if (best >= 0 && Wide{load} * best_capacity >= Wide{best_load} * capacity) continue;
    best = route;
    best_load = load;
    best_capacity = capacity;
  }
  return subflows_.ToPath(state, best);
}

std::int64_t Occupancy::StepsOfSearch(std::int64_t steps) const {
  return tier_chains_.IsPossible() ? steps / kPartAfterChains : steps;
}

std::span<const Occupancy::Move> Occupancy::Insert(SubflowId subflow, const MoveBudget& budget,
                                                   std::int64_t& steps) {
  moves_.clear();
  if (chains_.IsPossible()) {
    const std::int32_t route = chains_.MakeRoom(subflow, budget, steps);
    if (route >= 0) {
      links_.MoveTo(subflow, route);
      moves_.push_back({subflow, kNoPath, subflows_.ToPath(subflows_[subflow], route)});
      AppendMoves(chains_.moves());
    }
    if (route >= 0 || budget.moves == 0) return moves_;
  }
  if (tier_chains_.IsPossible()) {
    AppendMoves(tier_chains_.Insert(subflow, budget, steps));
    if (!moves_.empty() || budget.moves == 0) return moves_;
  }
  std::int64_t rest = StepsOfSearch(steps);
  steps -= rest;
  AppendMoves(search_.Insert(subflow, budget, rest));
  steps += rest;
  return moves_;
}

std::span<const Occupancy::Move> Occupancy::Relieve(std::uint32_t link, const MoveBudget& budget,
                                                    std::int64_t& steps) {
  moves_.clear();
  if (budget.moves == 0) return {};
  if (chains_.IsPossible()) AppendMoves(chains_.Relieve(link, budget, steps));
  if (tier_chains_.IsPossible()) AppendMoves(tier_chains_.Relieve(link, budget, steps));
  if (!moves_.empty()) return moves_;
  std::int64_t rest = StepsOfSearch(steps);
  steps -= rest;
  AppendMoves(search_.Relieve(link, budget, rest));
  steps += rest;
  return moves_;
}

std::span<const Occupancy::Move> Occupancy::InsertIdle(std::span<const SubflowId> subflows) {
  if (subflows.empty() || !chains_.IsPossible()) return {};
  moves_.resize(std::max(moves_.size(), subflows.size()));
  return std::span(moves_).first(links_.PutOnIdle(subflows, moves_.data()));
}

void Occupancy::AppendMoves(std::span<const Move> moves) {
  for (const Move& move : moves) {
    const SubflowState& state = subflows_[move.subflow];
    moves_.push_back(
        {move.subflow, subflows_.ToPath(state, move.from), subflows_.ToPath(state, move.to)});
  }
}

}  // namespace espalier::controller
