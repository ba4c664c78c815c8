#include "controller/routing/phases/phase_search.h"

#include <algorithm>
#include <tuple>

namespace espalier::controller {
namespace {

constexpr int kRoundsHome = 3;
constexpr std::int64_t kMovesForGain = 16;  // for one flow less on a link above its goal

}  // namespace

PhaseSearch::PhaseSearch(const PhaseProblem& problem, const PhaseGoals& goals,
                         std::int64_t chain_budget, std::int64_t walk_budget)
    : problem_(problem),
      goals_(goals),
      loads_(problem, goals),
      chains_(problem, loads_, chain_budget),
      walk_(problem, loads_, walk_budget) {}

void PhaseSearch::Improve() {
  chains_.KeepPhaseGoals(false);
  LowerLoads();
  chains_.KeepPhaseGoals(true);
  walk_.Run();
  RemoveMoves();
}

void PhaseSearch::Start(std::span<const std::uint32_t> routes) {
  loads_.Clear();
  std::vector<std::uint32_t> missing;
  for (std::uint32_t flow = 0; flow < problem_.flow_count(); ++flow) {
    if (!problem_.IsPlaced(flow)) continue;
    if (routes[flow] != PhaseProblem::kNoRoute) {
      loads_.Place(flow, routes[flow]);
    } else {
      missing.push_back(flow);
    }
  }
  // Flows that are hard to place come first.
  std::ranges::stable_sort(missing, {}, [&](std::uint32_t flow) {
    return std::tuple(-problem_.FlowAt(flow).share,
                      -static_cast<std::int64_t>(problem_.PhasesOf(flow).size()));
  });
  for (const std::uint32_t flow : missing) {
    const auto count = static_cast<std::uint32_t>(problem_.RoutesOf(flow).size());
    std::uint32_t best = 0;
    std::pair<double, bool> least{};
    for (std::uint32_t route = 0; route < count; ++route) {
      const std::pair seen{loads_.RatioWith(flow, route),
                           problem_.Clashes(flow, route, loads_.routes())};
      if (route > 0 && seen >= least) continue;
      best = route;
      least = seen;
    }
    loads_.Place(flow, best);
  }
}

std::vector<std::uint32_t> PhaseSearch::LinksAboveLimit() const {
  std::vector<std::uint32_t> links;
  for (std::uint32_t link = 0; link < problem_.link_count(); ++link) {
    if (chains_.IsAboveLimit(link) && loads_.CarriesMovable(link)) links.push_back(link);
  }
  const auto capacities = problem_.view().capacities_bps();
  std::ranges::stable_sort(links, std::ranges::greater{}, [&](std::uint32_t link) {
    return static_cast<double>(loads_.WorstOf(link)) / capacities[link];
  });
  return links;
}

void PhaseSearch::LowerLoads() {
  chains_.SetLimits(goals_.links);
  for (const std::uint32_t link : LinksAboveLimit()) {
    if (chains_.HasSteps() && chains_.IsAboveLimit(link)) chains_.Relieve(link);
  }
  std::vector<bool> is_frozen(problem_.link_count());
  for (;;) {
    // The greatest load above a goal of a link that may still be relieved.
    Load level;
    for (std::uint32_t link = 0; link < problem_.link_count(); ++link) {
      if (is_frozen[link] || loads_.WorstOf(link) <= goals_.links[link]) continue;
      if (!loads_.CarriesMovable(link)) continue;
      level = std::max(level, MakeLoad(problem_.view(), loads_.WorstOf(link),
                                       problem_.view().capacities()[link]));
    }
    if (level == Load{} || !chains_.HasSteps()) return;
    for (std::uint32_t link = 0; link < problem_.link_count(); ++link) {
      if (problem_.view().capacities()[link] == 0) continue;
      const std::int64_t below =
          std::max(goals_.links[link], UnitsBelow(problem_.view(), level, link));
      chains_.SetLimit(link, is_frozen[link] ? std::max(below, loads_.WorstOf(link)) : below);
    }
    for (const std::uint32_t link : LinksAboveLimit()) {
      if (!chains_.IsAboveLimit(link)) continue;
      if (!chains_.HasSteps()) return;
      if (!chains_.Relieve(link)) {
        is_frozen[link] = true;
        chains_.SetLimit(link, loads_.WorstOf(link));
      }
    }
  }
}

bool PhaseSearch::IsAway(std::uint32_t flow) const {
  const std::uint32_t home = problem_.HomeOf(flow);
  return home != PhaseProblem::kNoRoute && problem_.IsPlaced(flow) && loads_.RouteOf(flow) != home;
}

void PhaseSearch::RemoveMoves() {
  std::vector<std::int64_t> limits = goals_.links;
  for (std::uint32_t link = 0; link < limits.size(); ++link) {
    limits[link] = std::max(limits[link], loads_.WorstOf(link));
  }
  chains_.SetLimits(std::move(limits));
  BringHome();
  SeparateGroups();
}

void PhaseSearch::BringHome() {
  for (int round = 0; round < kRoundsHome; ++round) {
    bool has_changed = false;
    for (std::uint32_t flow = 0; flow < problem_.flow_count() && chains_.HasSteps(); ++flow) {
      if (!IsAway(flow)) continue;
      if (problem_.Clashes(flow, problem_.HomeOf(flow), loads_.routes())) continue;
      has_changed |= chains_.MoveHome(flow);
    }
    if (!has_changed) break;
  }
}

void PhaseSearch::SeparateGroups() {
  for (std::uint32_t flow = 0; flow < problem_.flow_count() && chains_.HasSteps(); ++flow) {
    const std::uint32_t route = loads_.RouteOf(flow);
    if (route == PhaseProblem::kNoRoute || route == problem_.HomeOf(flow)) continue;
    if (!problem_.IsMovable(flow) || !problem_.Clashes(flow, route, loads_.routes())) continue;
    chains_.Separate(flow);
  }
}

bool PhaseSearch::Quality::IsWorthItsMoves(const Quality& other) const {
  if (max_load != other.max_load) return max_load < other.max_load;
  if (excess <= other.excess && alone < other.alone) return true;
  const std::int64_t gain = other.excess - excess + other.excess_alone - excess_alone;
  return *this < other &&
         gain / kLoadUnit * kMovesForGain >=
             static_cast<std::int64_t>(moved) - static_cast<std::int64_t>(other.moved);
}

PhaseSearch::Quality PhaseSearch::Measure() const {
  Quality quality{.max_load = loads_.MaxLoad(),
                  .excess = loads_.excess(),
                  .alone = {},
                  .excess_alone = loads_.ExcessAlone()};
  if (!goals_.phases.empty()) {
    quality.alone = loads_.LoadsAlone();
    std::ranges::sort(quality.alone, std::ranges::greater{});
  }
  for (std::uint32_t flow = 0; flow < problem_.flow_count(); ++flow) quality.moved += IsAway(flow);
  return quality;
}

}  // namespace espalier::controller
