#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/phases/phase_problem.h"

namespace espalier::controller {

// An assignment of routes to phased flows, and the worst load of each directed link under it: what
// others put on it, plus for each job the maximum over its phases. Jobs drift against each other,
// so any phases of two jobs can meet.
//
// Complexity: placing or removing a flow O(links of its route x phases of its job), WorstWith
// O(phases of the flow); memory O(jobs x links + phases x links that their jobs can use). The
// problem must outlive it. Thread safety: one thread.
class PhaseLoads {
 public:
  explicit PhaseLoads(const PhaseProblem& problem);

  // Takes all flows off.
  void Clear();
  // The flow must have no route.
  void Place(std::uint32_t flow, std::uint32_t route);
  // Returns the route that it had.
  std::uint32_t Remove(std::uint32_t flow);

  std::uint32_t RouteOf(std::uint32_t flow) const { return routes_[flow]; }
  std::span<const std::uint32_t> routes() const { return routes_; }  // by flow; kNoRoute: none
  std::int64_t WorstOf(std::uint32_t link) const { return worst_[link]; }
  // Its worst load if this flow were there, too.
  std::int64_t WorstWith(std::uint32_t flow, std::uint32_t link) const;
  // The same with respect to the capacities, over all links of a route.
  double RatioWith(std::uint32_t flow, std::uint32_t route) const;
  std::span<const std::uint32_t> FlowsOn(std::uint32_t link) const { return flows_on_[link]; }
  // What the job's phase puts on a link, and the maximum over the job's phases.
  std::int64_t LoadOf(std::uint32_t phase, std::uint32_t link) const {
    return cells_[CellOf(problem_.JobOf(phase), phase, link)];
  }
  std::int64_t PeakOf(std::uint32_t job, std::uint32_t link) const {
    return peaks_[slot_of_[Key(job, link)]];
  }
  // The greatest worst load of a link that carries a movable flow.
  Load MaxLoad() const;
  bool CarriesMovable(std::uint32_t link) const {
    return std::ranges::any_of(flows_on_[link],
                               [&](std::uint32_t flow) { return problem_.IsMovable(flow); });
  }

 private:
  std::size_t Key(std::uint32_t job, std::uint32_t link) const {
    return std::size_t{job} * problem_.link_count() + link;
  }
  std::size_t CellOf(std::uint32_t job, std::uint32_t phase, std::uint32_t link) const {
    return first_cell_[job] + std::size_t{slot_of_[Key(job, link)]} * problem_.PhaseCountOf(job) +
           (phase - problem_.FirstPhaseOf(job));
  }
  void Add(std::uint32_t flow, std::uint32_t link, std::int64_t share);

  const PhaseProblem& problem_;
  std::vector<std::uint32_t> slot_of_;   // by job and link that the job can use
  std::vector<std::size_t> first_cell_;  // by job; minus its first slot's cells
  std::vector<std::int64_t> peaks_;      // by slot
  std::vector<std::int64_t> cells_;      // by slot and phase of the job
  std::vector<std::int64_t> worst_;      // by link
  std::vector<double> scale_;            // by link: 1 / capacity
  std::vector<std::uint32_t> routes_;
  std::vector<std::vector<std::uint32_t>> flows_on_;
};

}  // namespace espalier::controller
