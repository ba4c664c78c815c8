#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/phases/phase_bounds.h"
#include "controller/routing/phases/phase_chains.h"
#include "controller/routing/phases/phase_loads.h"

namespace espalier::controller {

// Improves an assignment of phased flows: first until no link is above its goal or nothing helps,
// then towards fewer moves. The arguments must outlive it. Thread safety: one thread.
class PhaseSearch {
 public:
  // `goals`: units by link that are low enough. `step_budget`: looks at routes.
  PhaseSearch(const PhaseProblem& problem, std::span<const std::int64_t> goals,
              std::int64_t step_budget)
      : problem_(problem), goals_(goals), loads_(problem), chains_(problem, loads_, step_budget) {}

  // Starts from these routes; flows without one get the route of least load.
  void Start(std::span<const std::uint32_t> routes);
  // Relieves links above their goals: first to the goals, then from the most loaded one on, level
  // by level. A link that no chain relieves keeps its load.
  void LowerLoads();
  // Brings flows home, and subflows of a group apart, without raising a link above its goal, or
  // above its load if that is higher.
  void RemoveMoves();

  struct Quality {
    Load max_load;
    std::int64_t excess = 0;  // over the goals, summed over all links with movable flows
    std::size_t moved = 0;    // flows that have left a usable path
    auto operator<=>(const Quality&) const = default;
  };
  Quality Measure() const;
  std::span<const std::uint32_t> routes() const { return loads_.routes(); }

 private:
  // The links with movable flows above their limits, the most loaded first.
  std::vector<std::uint32_t> LinksAboveLimit() const;
  bool IsAway(std::uint32_t flow) const;

  const PhaseProblem& problem_;
  std::span<const std::int64_t> goals_;
  PhaseLoads loads_;
  PhaseChains chains_;
};

}  // namespace espalier::controller
