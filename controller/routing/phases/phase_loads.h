#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "controller/routing/phases/phase_bounds.h"
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
  struct Cell {
    std::uint32_t phase = 0;
    std::uint32_t link = 0;
  };

  // Counts what is above the goals, which must outlive it.
  PhaseLoads(const PhaseProblem& problem, const PhaseGoals& goals);

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
  // By phase: the greatest load of a link with a movable flow of it, while only it is busy.
  std::vector<Load> LoadsAlone() const;
  bool CarriesMovable(std::uint32_t link) const { return movable_on_[link] > 0; }

  // The sum of what is above the goals of links, over those that carry a movable flow.
  std::int64_t excess() const { return excess_; }
  std::span<const std::uint32_t> LinksAbove() const { return links_above_.members; }
  // The same for the goals of phases. Unmovable flows are not above a goal.
  std::int64_t ExcessAlone() const { return excess_alone_; }
  std::span<const Cell> CellsAbove() const { return cells_above_.members; }
  std::int64_t CellGoal(std::uint32_t phase, std::uint32_t link) const {
    return cell_goals_.empty() ? kNoGoal : cell_goals_[CellOf(problem_.JobOf(phase), phase, link)];
  }

 private:
  static constexpr std::int64_t kNoGoal = std::numeric_limits<std::int64_t>::max();
  static constexpr std::uint32_t kAbsent = 0xFFFF'FFFF;

  // A set with constant time for each change.
  template <typename Member>
  struct IndexedSet {
    std::vector<Member> members;
    std::vector<std::uint32_t> place;  // by the member's index; kAbsent: not in the set
  };

  std::size_t Key(std::uint32_t job, std::uint32_t link) const {
    return std::size_t{job} * problem_.link_count() + link;
  }
  std::size_t CellOf(std::uint32_t job, std::uint32_t phase, std::uint32_t link) const {
    return first_cell_[job] + std::size_t{slot_of_[Key(job, link)]} * problem_.PhaseCountOf(job) +
           (phase - problem_.FirstPhaseOf(job));
  }
  void AllotCells();
  void SetCellGoals();
  void Add(std::uint32_t flow, std::uint32_t link, std::int64_t share);
  void CountLink(std::uint32_t link);
  void CountCell(std::size_t index, std::uint32_t phase, std::uint32_t link, std::int64_t before);

  const PhaseProblem& problem_;
  const PhaseGoals& goals_;
  std::vector<std::uint32_t> slot_of_;   // by job and link that the job can use
  std::vector<std::size_t> first_cell_;  // by job; minus its first slot's cells
  std::vector<std::int64_t> peaks_;      // by slot
  std::vector<std::int64_t> cells_;      // by slot and phase of the job
  std::vector<std::int64_t> worst_;      // by link
  std::vector<double> scale_;            // by link: 1 / capacity
  std::vector<std::uint32_t> routes_;
  std::vector<std::vector<std::uint32_t>> flows_on_;
  std::vector<std::uint32_t> movable_on_;  // by link: how many movable flows

  std::int64_t excess_ = 0;
  std::vector<std::int64_t> above_;  // by link
  IndexedSet<std::uint32_t> links_above_;
  std::int64_t excess_alone_ = 0;
  std::vector<std::int64_t> cell_goals_;  // as cells_; empty: none
  IndexedSet<Cell> cells_above_;
};

}  // namespace espalier::controller
