#include "controller/routing/phases/phase_loads.h"

#include "common/base/check.h"

namespace espalier::controller {

PhaseLoads::PhaseLoads(const PhaseProblem& problem)
    : problem_(problem),
      slot_of_(std::size_t{problem.job_count()} * problem.link_count(), 0xFFFF'FFFF),
      scale_(problem.link_count()),
      flows_on_(problem.link_count()) {
  std::uint32_t slots = 0;
  std::size_t cells = 0;
  for (std::uint32_t job = 0; job < problem.job_count(); ++job) {
    const std::size_t count = problem.PhaseCountOf(job);
    // Unsigned wrap-around cancels when CellOf adds the slot's cells.
    first_cell_.push_back(cells - slots * count);
    const std::uint32_t first = problem.FirstPhaseOf(job);
    for (std::uint32_t phase = first; phase < first + count; ++phase) {
      for (const std::uint32_t flow : problem.FlowsOf(phase)) {
        for (const auto& route : problem.RoutesOf(flow)) {
          for (const std::uint32_t link : problem.LinksOf(route)) {
            std::uint32_t& slot = slot_of_[Key(job, link)];
            if (slot != 0xFFFF'FFFF) continue;
            slot = slots++;
            cells += count;
          }
        }
      }
    }
  }
  peaks_.resize(slots);
  cells_.resize(cells);
  const auto capacities = problem.view().capacities_bps();
  for (std::uint32_t link = 0; link < problem.link_count(); ++link) {
    if (capacities[link] > 0) scale_[link] = 1 / capacities[link];
  }
  Clear();
}

void PhaseLoads::Clear() {
  std::ranges::fill(peaks_, 0);
  std::ranges::fill(cells_, 0);
  worst_.resize(problem_.link_count());
  for (std::uint32_t link = 0; link < worst_.size(); ++link) worst_[link] = problem_.BaseOf(link);
  routes_.assign(problem_.flow_count(), PhaseProblem::kNoRoute);
  for (auto& flows : flows_on_) flows.clear();
}

void PhaseLoads::Add(std::uint32_t flow, std::uint32_t link, std::int64_t share) {
  const auto phases = problem_.PhasesOf(flow);
  for (std::size_t i = 0; i < phases.size();) {
    const std::uint32_t job = problem_.JobOf(phases[i]);
    std::int64_t& peak = peaks_[slot_of_[Key(job, link)]];
    const std::int64_t before = peak;
    for (; i < phases.size() && problem_.JobOf(phases[i]) == job; ++i) {
      std::int64_t& cell = cells_[CellOf(job, phases[i], link)];
      cell += share;
      peak = std::max(peak, cell);
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
