#include "controller/routing/phases/phase_walk.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxExchangeMoves = 64;  // of an exchange
constexpr std::size_t kTabuEntries = 1U << 14U;
constexpr std::uint32_t kLeastTabu = 10;  // steps
constexpr std::uint32_t kTabuRange = 10;
constexpr double kWorse = 0.05;          // chance that a step to the worse by one flow is taken
constexpr std::int64_t kLinkWeight = 4;  // of a link's excess, against that of a phase alone
constexpr std::int64_t kStepsPerMove = 5;
constexpr std::uint32_t kGlancesPerStep = 4;  // at a flow, or a link

}  // namespace

// Problem: chains that must not raise any link above its limit end in local optima, where each
// link's excess could only move to another link first.
// Idea: take a link or phase above its goal at random, and a flow off it, by the exchange between
// two spines after which the excess is least. The phases' own goals hold on every link that an
// exchange changes, so within a phase it is the alternating chain of edge colouring: inside, every
// leaf keeps as many flows on each of the two spines, and only the loads at its ends change. A
// link's worst load falls only if all phases leave that reach their job's peak there, so a step
// takes a flow of each. A step is kept if the excess does not grow, and rarely if it grows by one
// flow. Phases do not return to a link that they have just left.
// Invariant: moves_ leads back to the best assignment so far.
// Cost: an exchange O(moves x phases of a flow); steps_ counts them.

PhaseWalk::PhaseWalk(const PhaseProblem& problem, PhaseLoads& loads, std::int64_t step_budget)
    : problem_(problem),
      loads_(loads),
      steps_(step_budget),
      exchange_of_(problem.flow_count()),
      tabu_(kTabuEntries) {}

std::int64_t PhaseWalk::Cost() const {
  return kLinkWeight * loads_.excess() + loads_.ExcessAlone();
}

void PhaseWalk::MoveFlow(std::uint32_t flow, std::uint32_t route) {
  exchange_of_[flow] = exchange_;
  moves_.push_back({flow, loads_.Remove(flow)});
  loads_.Place(flow, route);
  steps_ -= kStepsPerMove;
}

void PhaseWalk::UndoTo(std::size_t count) {
  while (moves_.size() > count) {
    loads_.Remove(moves_.back().flow);
    loads_.Place(moves_.back().flow, moves_.back().from);
    moves_.pop_back();
  }
}

std::uint32_t PhaseWalk::OtherRoute(std::uint32_t flow, std::uint32_t color, std::uint32_t other) {
  const auto routes = problem_.RoutesOf(flow);
  const std::uint32_t present = loads_.RouteOf(flow);
  if (problem_.view().clos()) {
    return problem_.RouteOfColor(flow, routes[present].color == color ? other : color);
  }
  std::uint32_t best = PhaseProblem::kNoRoute;
  double least = std::numeric_limits<double>::max();
  steps_ -= static_cast<std::int64_t>(routes.size());
  for (std::uint32_t route = 0; route < routes.size(); ++route) {
    const double ratio = loads_.RatioWith(flow, route);
    if (route == present || ratio >= least) continue;
    least = ratio;
    best = route;
  }
  return best;
}

bool PhaseWalk::MakeRoom(std::uint32_t flow, std::uint32_t link, std::uint32_t color,
                         std::uint32_t other) {
  for (const std::uint32_t phase : problem_.PhasesOf(flow)) {
    while (loads_.LoadOf(phase, link) > loads_.CellGoal(phase, link)) {
      const auto flows = loads_.FlowsOn(link);
      const auto found = std::ranges::find_if(flows, [&](std::uint32_t each) {
        return exchange_of_[each] != exchange_ && problem_.IsMovable(each) &&
               std::ranges::binary_search(problem_.PhasesOf(each), phase);
      });
      if (found == flows.end()) break;  // it stays above the goal, which the cost tells
      if (moves_.size() - begin_ >= kMaxExchangeMoves) return false;
      const std::uint32_t route = OtherRoute(*found, color, other);
      if (route == PhaseProblem::kNoRoute) return false;
      MoveFlow(*found, route);
    }
  }
  return true;
}

bool PhaseWalk::Exchange(std::uint32_t flow, std::uint32_t route) {
  ++exchange_;
  begin_ = moves_.size();
  const auto routes = problem_.RoutesOf(flow);
  const std::uint32_t color = routes[loads_.RouteOf(flow)].color;
  MoveFlow(flow, route);
  for (std::size_t i = begin_; i < moves_.size(); ++i) {
    const std::uint32_t moved = moves_[i].flow;
    for (const std::uint32_t link : problem_.LinksOf(moved, loads_.RouteOf(moved))) {
      if (!MakeRoom(moved, link, color, routes[route].color)) return false;
    }
  }
  return true;
}

bool PhaseWalk::MayHelp(std::uint32_t flow, std::uint32_t route, PhaseLoads::Cell cell) const {
  if (route == loads_.RouteOf(flow)) return false;
  const auto links = problem_.LinksOf(flow, route);
  const auto now = [&](std::uint32_t link) {
    return tabu_[Mix64((std::uint64_t{cell.phase} << 32U) | link) % kTabuEntries] > now_;
  };
  if (std::ranges::any_of(links, [&](std::uint32_t to) { return to == cell.link || now(to); })) {
    return false;
  }
  if (!problem_.view().clos()) return true;
  // A full link of the same leaf would send a flow of the phase back in exchange.
  const bool at_source = problem_.LinksOf(flow, loads_.RouteOf(flow)).front() == cell.link;
  const std::uint32_t to = at_source ? links.front() : links.back();
  const std::int64_t there = loads_.LoadOf(cell.phase, to);
  return there == 0 || there + problem_.FlowAt(flow).share <= loads_.CellGoal(cell.phase, to);
}

void PhaseWalk::ListMovable(PhaseLoads::Cell cell) {
  candidates_.clear();
  steps_ -= static_cast<std::int64_t>(loads_.FlowsOn(cell.link).size()) / kGlancesPerStep;
  for (const std::uint32_t flow : loads_.FlowsOn(cell.link)) {
    if (problem_.IsMovable(flow) &&
        std::ranges::binary_search(problem_.PhasesOf(flow), cell.phase)) {
      candidates_.push_back(flow);
    }
  }
}

bool PhaseWalk::Leave(PhaseLoads::Cell cell, std::int64_t good_enough) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::pair<std::uint32_t, std::uint32_t> best{PhaseProblem::kNoRoute, PhaseProblem::kNoRoute};
  const std::size_t kept = moves_.size();
  ListMovable(cell);
  for (const std::uint32_t flow : candidates_) {
    const auto count = static_cast<std::uint32_t>(problem_.RoutesOf(flow).size());
    const auto first = static_cast<std::uint32_t>(random_.Below(count));
    steps_ -= count / kGlancesPerStep;
    for (std::uint32_t i = 0; i < count && least > good_enough && steps_ > 0; ++i) {
      const std::uint32_t route = (first + i) % count;
      if (!MayHelp(flow, route, cell)) continue;
      const bool is_done = Exchange(flow, route);
      const std::int64_t cost = Cost();
      UndoTo(kept);
      if (!is_done || cost >= least) continue;
      least = cost;
      best = {flow, route};
    }
  }
  if (best.first == PhaseProblem::kNoRoute) return false;
  Exchange(best.first, best.second);
  tabu_[Mix64((std::uint64_t{cell.phase} << 32U) | cell.link) % kTabuEntries] =
      now_ + kLeastTabu + static_cast<std::uint32_t>(random_.Below(kTabuRange));
  return true;
}

bool PhaseWalk::LowerPeak(std::uint32_t job, std::uint32_t link) {
  const std::int64_t peak = loads_.PeakOf(job, link);
  const std::uint32_t first = problem_.FirstPhaseOf(job);
  std::uint32_t left = 0;  // phases that reach the peak
  for (std::uint32_t p = 0; p < problem_.PhaseCountOf(job); ++p) {
    left += loads_.LoadOf(first + p, link) == peak;
  }
  for (std::uint32_t p = 0; p < problem_.PhaseCountOf(job); ++p) {
    if (loads_.LoadOf(first + p, link) < peak) continue;
    // Only when the last one leaves, the worst load can fall.
    if (!Leave({first + p, link}, Cost() - (--left == 0 ? 1 : 0))) return false;
  }
  return true;
}

void PhaseWalk::Step() {
  ++now_;
  const std::size_t kept = moves_.size();
  const std::int64_t before = Cost();
  const auto links = loads_.LinksAbove();
  const auto cells = loads_.CellsAbove();
  const std::size_t pick = random_.Below(links.size() + cells.size());
  bool is_done = false;
  if (pick < links.size()) {
    const std::uint32_t link = links[pick];
    const auto flows = loads_.FlowsOn(link);
    const auto phases = problem_.PhasesOf(flows[random_.Below(flows.size())]);
    is_done = LowerPeak(problem_.JobOf(phases[random_.Below(phases.size())]), link);
  } else {
    is_done = Leave(cells[pick - links.size()], before - 1);
  }
  const std::int64_t growth = Cost() - before;
  if (is_done && (growth <= 0 || (growth <= kLinkWeight * kLoadUnit && random_.Chance(kWorse)))) {
    return;
  }
  UndoTo(kept);
}

bool PhaseWalk::IsBelowCeiling() {
  steps_ -= static_cast<std::int64_t>(loads_.LinksAbove().size()) / kGlancesPerStep;
  return std::ranges::all_of(loads_.LinksAbove(), [&](std::uint32_t link) {
    return loads_.WorstOf(link) <= ceiling_[link];
  });
}

void PhaseWalk::Run() {
  const std::int64_t patience = steps_ / 2;
  const auto quality = [this] { return std::pair(loads_.excess(), loads_.ExcessAlone()); };
  auto best = quality();
  moves_.clear();
  const Load ceiling = loads_.MaxLoad();
  ceiling_.resize(problem_.link_count());
  for (std::uint32_t link = 0; link < problem_.link_count(); ++link) {
    if (problem_.view().capacities()[link] > 0) {
      ceiling_[link] = UnitsAtMost(problem_.view(), ceiling, link);
    }
  }
  std::int64_t give_up = steps_ - patience;
  while (best > std::pair<std::int64_t, std::int64_t>{} &&
         steps_ > std::max<std::int64_t>(0, give_up)) {
    --steps_;
    Step();
    if (quality() >= best || !IsBelowCeiling()) continue;
    best = quality();
    moves_.clear();
    give_up = steps_ - patience;
  }
  UndoTo(0);
}

}  // namespace espalier::controller
