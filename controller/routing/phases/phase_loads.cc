#include "controller/routing/phases/phase_loads.h"

#include <utility>

#include "common/base/check.h"

namespace espalier::controller {

namespace {

// Removes a member in constant time. `index_of` tells the index of a member.
template <typename Set, typename IndexOf>
void Erase(Set& set, std::size_t index, const IndexOf& index_of) {
  const std::uint32_t place = std::exchange(set.place[index], 0xFFFF'FFFF);
  const auto last = set.members.back();
  set.members.pop_back();
  if (place == set.members.size()) return;
  set.members[place] = last;
  set.place[index_of(last)] = place;
}

template <typename Set, typename Member>
void Insert(Set& set, std::size_t index, const Member& member) {
  set.place[index] = static_cast<std::uint32_t>(set.members.size());
  set.members.push_back(member);
}

}  // namespace

PhaseLoads::PhaseLoads(const PhaseProblem& problem, const PhaseGoals& goals)
    : problem_(problem),
      goals_(goals),
      slot_of_(std::size_t{problem.job_count()} * problem.link_count(), kAbsent),
      scale_(problem.link_count()),
      flows_on_(problem.link_count()) {
  AllotCells();
  const auto capacities = problem.view().capacities_bps();
  for (std::uint32_t link = 0; link < problem.link_count(); ++link) {
    if (capacities[link] > 0) scale_[link] = 1 / capacities[link];
  }
  if (!goals.phases.empty()) SetCellGoals();
  Clear();
}

void PhaseLoads::AllotCells() {
  std::uint32_t slots = 0;
  std::size_t cells = 0;
  for (std::uint32_t job = 0; job < problem_.job_count(); ++job) {
    const std::size_t count = problem_.PhaseCountOf(job);
    // Unsigned wrap-around cancels when CellOf adds the slot's cells.
    first_cell_.push_back(cells - slots * count);
    const std::uint32_t first = problem_.FirstPhaseOf(job);
    for (std::uint32_t phase = first; phase < first + count; ++phase) {
      for (const std::uint32_t flow : problem_.FlowsOf(phase)) {
        for (const auto& route : problem_.RoutesOf(flow)) {
          for (const std::uint32_t link : problem_.LinksOf(route)) {
            std::uint32_t& slot = slot_of_[Key(job, link)];
            if (slot != kAbsent) continue;
            slot = slots++;
            cells += count;
          }
        }
      }
    }
  }
  peaks_.resize(slots);
  cells_.resize(cells);
}

void PhaseLoads::SetCellGoals() {
  const FabricView& view = problem_.view();
  cell_goals_.resize(cells_.size());
  cells_above_.place.assign(cells_.size(), kAbsent);
  for (std::uint32_t phase = 0; phase < problem_.phase_count(); ++phase) {
    const std::uint32_t job = problem_.JobOf(phase);
    const Load& goal = goals_.phases[phase];
    std::int64_t on_fastest = -1;  // of the usual link
    for (std::uint32_t link = 0; link < problem_.link_count(); ++link) {
      if (slot_of_[Key(job, link)] == kAbsent) continue;
      const bool is_fastest = view.capacities()[link] == view.unit_bps();
      std::int64_t units = is_fastest ? on_fastest : -1;
      if (units < 0) units = UnitsAtMost(view, goal, link);
      if (is_fastest) on_fastest = units;
      cell_goals_[CellOf(job, phase, link)] =
          std::max<std::int64_t>(0, units - problem_.BaseOf(link));
    }
    std::vector<std::int64_t> unmovable;
    for (const std::uint32_t flow : problem_.FlowsOf(phase)) {
      if (problem_.IsMovable(flow)) continue;
      unmovable.resize(problem_.link_count());
      for (const std::uint32_t link : problem_.LinksOf(flow, problem_.HomeOf(flow))) {
        unmovable[link] += problem_.FlowAt(flow).share;
        std::int64_t& least = cell_goals_[CellOf(job, phase, link)];
        least = std::max(least, unmovable[link]);
      }
    }
  }
}

void PhaseLoads::Clear() {
  std::ranges::fill(peaks_, 0);
  std::ranges::fill(cells_, 0);
  worst_.resize(problem_.link_count());
  for (std::uint32_t link = 0; link < worst_.size(); ++link) worst_[link] = problem_.BaseOf(link);
  routes_.assign(problem_.flow_count(), PhaseProblem::kNoRoute);
  for (auto& flows : flows_on_) flows.clear();
  movable_on_.assign(problem_.link_count(), 0);
  excess_ = excess_alone_ = 0;
  above_.assign(problem_.link_count(), 0);
  links_above_ = {{}, std::vector<std::uint32_t>(problem_.link_count(), kAbsent)};
  for (const Cell& cell : cells_above_.members) {
    cells_above_.place[CellOf(problem_.JobOf(cell.phase), cell.phase, cell.link)] = kAbsent;
  }
  cells_above_.members.clear();
}

void PhaseLoads::CountLink(std::uint32_t link) {
  const std::int64_t above =
      movable_on_[link] > 0 ? std::max<std::int64_t>(0, worst_[link] - goals_.links[link]) : 0;
  const std::int64_t before = std::exchange(above_[link], above);
  excess_ += above - before;
  if (before == 0 && above > 0) Insert(links_above_, link, link);
  if (before > 0 && above == 0) Erase(links_above_, link, [](std::uint32_t at) { return at; });
}

void PhaseLoads::CountCell(std::size_t index, std::uint32_t phase, std::uint32_t link,
                           std::int64_t before) {
  const std::int64_t goal = cell_goals_[index];
  const std::int64_t was_above = std::max<std::int64_t>(0, before - goal);
  const std::int64_t above = std::max<std::int64_t>(0, cells_[index] - goal);
  excess_alone_ += above - was_above;
  if (was_above == 0 && above > 0) Insert(cells_above_, index, Cell{phase, link});
  if (was_above > 0 && above == 0) {
    Erase(cells_above_, index, [this](const Cell& cell) {
      return CellOf(problem_.JobOf(cell.phase), cell.phase, cell.link);
    });
  }
}

void PhaseLoads::Add(std::uint32_t flow, std::uint32_t link, std::int64_t share) {
  const auto phases = problem_.PhasesOf(flow);
  for (std::size_t i = 0; i < phases.size();) {
    const std::uint32_t job = problem_.JobOf(phases[i]);
    std::int64_t& peak = peaks_[slot_of_[Key(job, link)]];
    const std::int64_t before = peak;
    for (; i < phases.size() && problem_.JobOf(phases[i]) == job; ++i) {
      const std::size_t index = CellOf(job, phases[i], link);
      const std::int64_t cell = cells_[index] += share;
      peak = std::max(peak, cell);
      if (!cell_goals_.empty()) CountCell(index, phases[i], link, cell - share);
    }
    if (share < 0) {
      const auto cells = std::span(cells_).subspan(CellOf(job, problem_.FirstPhaseOf(job), link),
                                                   problem_.PhaseCountOf(job));
      peak = *std::ranges::max_element(cells);
    }
    worst_[link] += peak - before;
  }
}

void PhaseLoads::Place(std::uint32_t flow, std::uint32_t route) {
  ESPALIER_CHECK(routes_[flow] == PhaseProblem::kNoRoute, "flow={}", flow);
  routes_[flow] = route;
  for (const std::uint32_t link : problem_.LinksOf(flow, route)) {
    Add(flow, link, problem_.FlowAt(flow).share);
    flows_on_[link].push_back(flow);
    movable_on_[link] += problem_.IsMovable(flow);
    CountLink(link);
  }
}

std::uint32_t PhaseLoads::Remove(std::uint32_t flow) {
  const std::uint32_t route = routes_[flow];
  ESPALIER_CHECK(route != PhaseProblem::kNoRoute, "flow={}", flow);
  routes_[flow] = PhaseProblem::kNoRoute;
  for (const std::uint32_t link : problem_.LinksOf(flow, route)) {
    Add(flow, link, -problem_.FlowAt(flow).share);
    auto& flows = flows_on_[link];
    *std::ranges::find(flows, flow) = flows.back();
    flows.pop_back();
    movable_on_[link] -= problem_.IsMovable(flow);
    CountLink(link);
  }
  return route;
}

std::int64_t PhaseLoads::WorstWith(std::uint32_t flow, std::uint32_t link) const {
  const auto phases = problem_.PhasesOf(flow);
  const std::int64_t share = problem_.FlowAt(flow).share;
  std::int64_t worst = worst_[link];
  for (std::size_t i = 0; i < phases.size();) {
    const std::uint32_t job = problem_.JobOf(phases[i]);
    const std::int64_t peak = peaks_[slot_of_[Key(job, link)]];
    std::int64_t top = peak;
    for (; i < phases.size() && problem_.JobOf(phases[i]) == job; ++i) {
      top = std::max(top, cells_[CellOf(job, phases[i], link)] + share);
    }
    worst += top - peak;
  }
  return worst;
}

double PhaseLoads::RatioWith(std::uint32_t flow, std::uint32_t route) const {
  double ratio = 0;
  for (const std::uint32_t link : problem_.LinksOf(flow, route)) {
    ratio = std::max(ratio, static_cast<double>(WorstWith(flow, link)) * scale_[link]);
  }
  return ratio;
}

std::vector<Load> PhaseLoads::LoadsAlone() const {
  const FabricView& view = problem_.view();
  std::vector<Load> loads;
  for (std::uint32_t phase = 0; phase < problem_.phase_count(); ++phase) {
    std::uint32_t busiest = kNoLink;
    double greatest = -1;
    for (const std::uint32_t flow : problem_.FlowsOf(phase)) {
      if (!problem_.IsMovable(flow) || routes_[flow] == PhaseProblem::kNoRoute) continue;
      for (const std::uint32_t link : problem_.LinksOf(flow, routes_[flow])) {
        const std::int64_t units = LoadOf(phase, link) + problem_.BaseOf(link);
        const double ratio = static_cast<double>(units) * scale_[link];
        if (ratio <= greatest * (1 + 1e-9)) continue;
        greatest = ratio;
        busiest = link;
      }
    }
    loads.push_back(busiest == kNoLink
                        ? Load{}
                        : MakeLoad(view, LoadOf(phase, busiest) + problem_.BaseOf(busiest),
                                   view.capacities()[busiest]));
  }
  return loads;
}

Load PhaseLoads::MaxLoad() const {
  Load most;
  double greatest = 0;  // skips links that are clearly below the maximum
  for (std::uint32_t link = 0; link < worst_.size(); ++link) {
    const double ratio = static_cast<double>(worst_[link]) * scale_[link];
    if (flows_on_[link].empty() || ratio < greatest * (1 - 1e-9) || !CarriesMovable(link)) continue;
    greatest = std::max(greatest, ratio);
    most =
        std::max(most, MakeLoad(problem_.view(), worst_[link], problem_.view().capacities()[link]));
  }
  return most;
}

}  // namespace espalier::controller
