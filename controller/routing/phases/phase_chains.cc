#include "controller/routing/phases/phase_chains.h"

#include <algorithm>
#include <limits>

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxMoves = 128;       // of a chain
constexpr std::size_t kMaxAlternatives = 6;  // colours tried for one set of flows
constexpr std::uint32_t kNoRoute = PhaseProblem::kNoRoute;

}  // namespace

// Problem: a link carries more than its limit. Some flows must leave it, but the other links of
// their leaves may be full, too.
// Idea: the alternating chain of edge colouring. The link's load is the sum of the jobs' peaks, so
// it falls only if one job's peak falls, and that needs one flow out of each phase that reaches the
// peak: such a set is ejected together. An ejected flow lands on a route that has room for it, its
// home first. If there is none, it is exchanged between two colours (spines): it is pushed to the
// other one, and what is then too much on the links there is ejected in turn. With disjoint phases,
// a single job and equal shares, the flows of a phase that have one of two colours form paths and
// even cycles, so the chain ends where a leaf has room (Konig). Elsewhere it may fail, and is
// undone. Without a Clos, a flow is pushed to the route with the least excess.
// Invariant: a chain moves a flow once. When it has succeeded, no link that it used is above its
// limit, and the load of no other link has grown.
// Cost: O(routes x links x phases of the flow) for each flow that moves.

bool PhaseChains::Fits(std::uint32_t flow, std::uint32_t route) const {
  const std::int64_t share = problem_.FlowAt(flow).share;
  return std::ranges::all_of(problem_.LinksOf(flow, route), [&](std::uint32_t link) {
    if (loads_.WorstWith(flow, link) > limits_[link]) return false;
    return !keeps_phase_goals_ ||
           std::ranges::all_of(problem_.PhasesOf(flow), [&](std::uint32_t phase) {
             return loads_.LoadOf(phase, link) + share <= loads_.CellGoal(phase, link);
           });
  });
}

std::int64_t PhaseChains::ExcessWith(std::uint32_t flow, std::uint32_t route) const {
  std::int64_t excess = 0;
  for (const std::uint32_t link : problem_.LinksOf(flow, route)) {
    excess += std::max<std::int64_t>(0, loads_.WorstWith(flow, link) - limits_[link]);
  }
  return excess;
}

int PhaseChains::CostOf(std::uint32_t flow, std::uint32_t from, std::uint32_t to) const {
  const std::uint32_t home = problem_.HomeOf(flow);
  if (home == kNoRoute) return 0;
  return static_cast<int>(to != home) - static_cast<int>(from != home);
}

int PhaseChains::Cost() const {
  int cost = 0;
  for (const Move& move : moves_) cost += CostOf(move.flow, move.from, move.to);
  return cost;
}

void PhaseChains::ListJobsOn(std::uint32_t link) {
  jobs_.clear();
  for (const std::uint32_t flow : loads_.FlowsOn(link)) {
    for (const std::uint32_t phase : problem_.PhasesOf(flow))
      jobs_.push_back(problem_.JobOf(phase));
  }
  std::ranges::sort(jobs_);
  jobs_.erase(std::unique(jobs_.begin(), jobs_.end()), jobs_.end());
}

std::int64_t PhaseChains::ChooseEjected(std::uint32_t link, std::uint32_t job, std::int64_t units) {
  const std::uint32_t first = problem_.FirstPhaseOf(job);
  const std::uint32_t count = problem_.PhaseCountOf(job);
  const auto flows = loads_.FlowsOn(link);
  const auto is_in_job = [&](std::uint32_t phase) { return phase - first < count; };
  const auto can_move = [&](std::uint32_t flow) {
    return problem_.IsMovable(flow) && chain_of_[flow] != chain_ &&
           std::ranges::find(set_, flow) == set_.end();
  };
  const std::int64_t peak = loads_.PeakOf(job, link);
  std::vector<std::int64_t>& above = above_;
  above.assign(count, 0);
  for (std::uint32_t p = 0; p < count; ++p) above[p] = loads_.LoadOf(first + p, link);
  // What cannot leave, and what is already chosen, bounds the target from below.
  std::vector<std::int64_t> stuck = above;
  for (const std::uint32_t flow : flows) {
    const bool is_chosen = std::ranges::find(set_, flow) != set_.end();
    if (!is_chosen && !can_move(flow)) continue;
    for (const std::uint32_t phase : problem_.PhasesOf(flow)) {
      if (!is_in_job(phase)) continue;
      stuck[phase - first] -= problem_.FlowAt(flow).share;
      if (is_chosen) above[phase - first] -= problem_.FlowAt(flow).share;
    }
  }
  const std::int64_t before = *std::ranges::max_element(above);
  const std::int64_t target =
      std::max({std::int64_t{0}, std::min(peak, before) - units, *std::ranges::max_element(stuck)});
  for (std::int64_t& each : above) each -= target;
  while (*std::ranges::max_element(above) > 0) {
    const auto top = static_cast<std::uint32_t>(std::ranges::max_element(above) - above.begin());
    std::uint32_t best = kNoRoute;
    std::pair<std::int64_t, bool> best_value{0, false};
    for (const std::uint32_t flow : flows) {
      const auto phases = problem_.PhasesOf(flow);
      if (!can_move(flow) || !std::ranges::binary_search(phases, first + top)) continue;
      std::pair<std::int64_t, bool> value{0, loads_.RouteOf(flow) != problem_.HomeOf(flow)};
      for (const std::uint32_t phase : phases) {
        if (!is_in_job(phase)) continue;
        value.first +=
            std::clamp<std::int64_t>(above[phase - first], 0, problem_.FlowAt(flow).share);
      }
      if (best != kNoRoute && value <= best_value) continue;
      best = flow;
      best_value = value;
    }
    if (best == kNoRoute || best_value.first == 0) break;
    set_.push_back(best);
    for (const std::uint32_t phase : problem_.PhasesOf(best)) {
      if (is_in_job(phase)) above[phase - first] -= problem_.FlowAt(best).share;
    }
  }
  const std::int64_t rest = std::max<std::int64_t>(*std::ranges::max_element(above), 0);
  return before - (target + rest);
}

bool PhaseChains::ChooseEjected(std::uint32_t link, std::uint32_t first_job) {
  set_.clear();
  std::int64_t units = loads_.WorstOf(link) - limits_[link];
  units -= ChooseEjected(link, first_job, units);
  for (const std::uint32_t job : jobs_) {
    if (units <= 0) break;
    if (job != first_job) units -= ChooseEjected(link, job, units);
  }
  return units <= 0;
}

void PhaseChains::Begin() {
  chain_of_.resize(problem_.flow_count());
  ++chain_;
  moves_.clear();
  landed_ = 0;
}

void PhaseChains::Eject(std::uint32_t flow) {
  chain_of_[flow] = chain_;
  moves_.push_back({flow, loads_.Remove(flow), kNoRoute});
}

void PhaseChains::Undo() {
  for (const Move& move : moves_) {
    if (move.to != kNoRoute) loads_.Remove(move.flow);
  }
  for (const Move& move : moves_) loads_.Place(move.flow, move.from);
}

void PhaseChains::Apply(std::span<const Move> moves) {
  for (const Move& move : moves) loads_.Remove(move.flow);
  for (const Move& move : moves) loads_.Place(move.flow, move.to);
}

std::uint32_t PhaseChains::FreeRoute(std::uint32_t flow) {
  const std::uint32_t home = problem_.HomeOf(flow);
  std::uint32_t found = kNoRoute;
  if (home != kNoRoute && Fits(flow, home)) {
    if (!problem_.Clashes(flow, home, loads_.routes())) return home;
    found = home;
  }
  const auto count = static_cast<std::uint32_t>(problem_.RoutesOf(flow).size());
  steps_ -= count;
  for (std::uint32_t route = 0; route < count; ++route) {
    if (route == home || !Fits(flow, route)) continue;
    if (!problem_.Clashes(flow, route, loads_.routes())) return route;
    if (found == kNoRoute) found = route;
  }
  return found;
}

std::uint32_t PhaseChains::ForcedRoute(const Move& move, const Colors& colors) {
  const auto routes = problem_.RoutesOf(move.flow);
  if (problem_.view().clos()) {
    const bool is_back = routes[move.from].color != colors.from;
    return problem_.RouteOfColor(move.flow, is_back ? colors.from : colors.to);
  }
  steps_ -= static_cast<std::int64_t>(routes.size());
  std::uint32_t best = kNoRoute;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t route = 0; route < routes.size(); ++route) {
    if (route == move.from) continue;
    const std::int64_t excess = ExcessWith(move.flow, route);
    if (excess >= least) continue;
    least = excess;
    best = route;
  }
  return best;
}

bool PhaseChains::EjectUntilWithinLimit(std::uint32_t link) {
  if (!IsAboveLimit(link)) return true;
  ListJobsOn(link);
  std::vector<std::uint32_t> fewest;
  bool has_set = false;
  for (const std::uint32_t job : jobs_) {
    if (!ChooseEjected(link, job) || (has_set && set_.size() >= fewest.size())) continue;
    fewest = set_;
    has_set = true;
  }
  if (!has_set || moves_.size() + fewest.size() > kMaxMoves) return false;
  for (const std::uint32_t flow : fewest) Eject(flow);
  return true;
}

bool PhaseChains::EjectUntilWithinPhaseGoals(std::uint32_t flow, std::uint32_t link) {
  if (!keeps_phase_goals_) return true;
  for (const std::uint32_t phase : problem_.PhasesOf(flow)) {
    while (loads_.LoadOf(phase, link) > loads_.CellGoal(phase, link)) {
      const auto flows = loads_.FlowsOn(link);
      const auto other = std::ranges::find_if(flows, [&](std::uint32_t each) {
        return problem_.IsMovable(each) && chain_of_[each] != chain_ &&
               std::ranges::binary_search(problem_.PhasesOf(each), phase);
      });
      if (other == flows.end() || moves_.size() >= kMaxMoves) return false;
      Eject(*other);
    }
  }
  return true;
}

void PhaseChains::Land(std::uint32_t flow, std::uint32_t route) {
  loads_.Place(flow, route);
  moves_[landed_++].to = route;
}

bool PhaseChains::PushTo(Move move, std::uint32_t route) {
  if (route == kNoRoute) return false;
  Land(move.flow, route);
  return std::ranges::all_of(problem_.LinksOf(move.flow, route), [&](std::uint32_t link) {
    return EjectUntilWithinPhaseGoals(move.flow, link) && EjectUntilWithinLimit(link);
  });
}

bool PhaseChains::Settle(const Colors& colors) {
  while (landed_ < moves_.size()) {
    if (steps_ <= 0) return false;
    const Move move = moves_[landed_];
    const std::uint32_t free = FreeRoute(move.flow);
    if (free != kNoRoute) {
      Land(move.flow, free);
    } else if (!PushTo(move, ForcedRoute(move, colors))) {
      return false;
    }
  }
  return true;
}

void PhaseChains::ListAlternatives(std::uint32_t flow, std::uint32_t color) {
  alternatives_.clear();
  if (!problem_.view().clos()) {
    alternatives_.emplace_back(0, 0);
    return;
  }
  const auto routes = problem_.RoutesOf(flow);
  steps_ -= static_cast<std::int64_t>(routes.size());
  for (std::uint32_t route = 0; route < routes.size(); ++route) {
    if (routes[route].color == color) continue;
    alternatives_.emplace_back(ExcessWith(flow, route), routes[route].color);
  }
  std::ranges::sort(alternatives_);
  if (alternatives_.size() > kMaxAlternatives) alternatives_.resize(kMaxAlternatives);
}

void PhaseChains::TrySet(std::span<const std::uint32_t> set) {
  const std::uint32_t first = set.front();
  const std::uint32_t color = problem_.RoutesOf(first)[loads_.RouteOf(first)].color;
  const std::uint32_t route = loads_.Remove(first);
  ListAlternatives(first, color);
  loads_.Place(first, route);
  for (const auto& [excess, other] : alternatives_) {
    if (steps_ <= 0) return;
    Begin();
    for (const std::uint32_t flow : set) Eject(flow);
    const bool is_done = Settle({color, other});
    const int cost = Cost();
    if (is_done &&
        (!has_best_ || std::pair(cost, moves_.size()) < std::pair(best_cost_, best_.size()))) {
      has_best_ = true;
      best_cost_ = cost;
      best_ = moves_;
    }
    Undo();
    if (is_done && moves_.size() == set.size()) return;  // no other colour is better
  }
}

bool PhaseChains::Relieve(std::uint32_t link) {
  Begin();
  has_best_ = false;
  ListJobsOn(link);
  std::vector<std::vector<std::uint32_t>> sets;
  for (const std::uint32_t job : std::vector(jobs_)) {
    if (ChooseEjected(link, job) && !set_.empty()) sets.push_back(set_);
  }
  std::ranges::stable_sort(sets, {}, [](const auto& set) { return set.size(); });
  for (const auto& set : sets) {
    if (has_best_ && static_cast<std::size_t>(std::max(0, best_cost_)) <= set.size() &&
        best_.size() <= set.size()) {
      break;
    }
    TrySet(set);
  }
  if (has_best_) Apply(best_);
  return has_best_;
}

bool PhaseChains::MoveHome(std::uint32_t flow) {
  const std::uint32_t home = problem_.HomeOf(flow);
  const auto routes = problem_.RoutesOf(flow);
  const Colors colors{routes[loads_.RouteOf(flow)].color, routes[home].color};
  Begin();
  Eject(flow);
  --steps_;
  if (Fits(flow, home)) {
    Land(flow, home);
    return true;
  }
  if (PushTo(moves_.front(), home) && Settle(colors) && Cost() < 0) return true;
  Undo();
  return false;
}

bool PhaseChains::Separate(std::uint32_t flow) {
  const auto routes = problem_.RoutesOf(flow);
  const std::uint32_t color = routes[loads_.RouteOf(flow)].color;
  for (std::uint32_t route = 0; route < routes.size() && steps_ > 0; ++route) {
    if (problem_.Clashes(flow, route, loads_.routes())) continue;
    Begin();
    Eject(flow);
    --steps_;
    if (PushTo(moves_.front(), route) && Settle({color, routes[route].color}) && Cost() <= 0) {
      return true;
    }
    Undo();
  }
  return false;
}

}  // namespace espalier::controller
