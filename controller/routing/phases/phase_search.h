#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/phases/phase_bounds.h"
#include "controller/routing/phases/phase_chains.h"
#include "controller/routing/phases/phase_loads.h"
#include "controller/routing/phases/phase_walk.h"

namespace espalier::controller {

// Improves an assignment of phased flows: first until no link is above its goal or nothing helps,
// then the same for phases alone, then towards fewer moves. The arguments must outlive it. Thread
// safety: one thread.
class PhaseSearch {
 public:
  // Budgets are looks at routes.
  PhaseSearch(const PhaseProblem& problem, const PhaseGoals& goals, std::int64_t chain_budget,
              std::int64_t walk_budget);

  // Starts from these routes; flows without one get the route of least load.
  void Start(std::span<const std::uint32_t> routes);
  void Improve();

  struct Quality {
    Load max_load;
    std::int64_t excess = 0;        // over the goals of links
    std::vector<Load> alone;        // the greatest load of each phase alone, the greatest first
    std::int64_t excess_alone = 0;  // over the goals of phases
    std::size_t moved = 0;          // flows that have left a usable path
    std::strong_ordering operator<=>(const Quality&) const = default;
    // Whether it is better by enough for the flows that it moves: by a lower maximum, by phases
    // that are less loaded alone, or by a share of the flows on links above their goals. So plans
    // do not move many flows for little each time.
    bool IsWorthItsMoves(const Quality& other) const;
  };
  Quality Measure() const;
  bool IsWithinGoals() const { return loads_.excess() == 0 && loads_.ExcessAlone() == 0; }
  std::span<const std::uint32_t> routes() const { return loads_.routes(); }

 private:
  // Relieves links above their goals: first to the goals, then from the most loaded one on, level
  // by level. A link that no chain relieves keeps its load.
  void LowerLoads();
  // Brings flows home, and subflows of a group apart, without raising a link above its goal, or
  // above its load if that is higher, and without raising a phase above its goal on a link.
  void RemoveMoves();
  void BringHome();
  void SeparateGroups();
  // The links with movable flows above their limits, the most loaded first.
  std::vector<std::uint32_t> LinksAboveLimit() const;
  bool IsAway(std::uint32_t flow) const;

  const PhaseProblem& problem_;
  const PhaseGoals& goals_;
  PhaseLoads loads_;
  PhaseChains chains_;
  PhaseWalk walk_;
};

}  // namespace espalier::controller
