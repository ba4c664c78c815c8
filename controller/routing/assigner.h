#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/assignment.h"
#include "controller/routing/equitable_paths.h"
#include "controller/routing/occupancy/occupancy.h"
#include "controller/routing/rates.h"

namespace espalier::controller {

struct AssignOptions {
  // By job; empty: all 1. A job of weight 2 should be twice as fast as one of weight 1.
  std::span<const std::uint32_t> job_weights;
  // Jobs by their slowest phase (Commodity::phase), and of equal ones by the next slower: the
  // third layer of fairness (section 8). Otherwise a job counts by its slowest flow alone.
  bool fair_phases = false;
  // How long Optimal may go on improving, in steps of about 100 ns: local search where no theorem
  // gives the optimum, and the choice among assignments of equal maximum load. 0: the first
  // assignment of least load that is found.
  std::int64_t step_budget = 200'000;
};

// Assigns paths to all commodities at once. A workspace: kept from call to call, so that repeated
// assignments of like size allocate nothing. Deterministic: same input, same output.
//
// Up to kMaxTotalSubflows ways in all; more, or a commodity of none or more than kMaxSubflows, is a
// broken invariant. No other input is refused: commodities within one leaf take no path,
// unreachable ones are reported (kNoPath) and do not hinder the others. Results are valid until the
// next call. Thread safety: one thread per workspace (the view fills its cache, too).
class Assigner {
 public:
  // After link states change: view.Refresh().
  explicit Assigner(FabricView& view)
      : view_(view), equitable_(view), occupancy_(view), rates_(view) {}

  // Algorithm 1 of Routing for Large ML Models (section 3.4.1) over switch-to-switch links: takes
  // the commodities in the caller's order and gives each way the usable path whose busiest link,
  // relative to its capacity, carries least so far; the lowest index (spine) among equals.
  // Guarantee: on a full 2-layer Clos with equal links at most twice the optimum (Theorem 2).
  // Complexity: O(total candidate hops).
  const Assignment& Greedy(std::span<const Commodity> commodities);

  // The least maximum load: exact on a 2-layer Clos whose leaves share one set of live spines with
  // equal rates (equitable edge colouring: every leaf's links carry the floor or ceiling of its
  // mean); elsewhere the best found within the budget, with lower_bound telling the gap. Among
  // assignments of that load the one with the lexicographically greatest vector of jobs'
  // slowest rates that is found within the budget. Never worse than Greedy in maximum load.
  // Where nothing that is found makes jobs (or their phases, if asked for) faster than Greedy in
  // the order of the paper's authors does at the same load, that is what is returned.
  const Assignment& Optimal(std::span<const Commodity> commodities,
                            const AssignOptions& options = {});

 private:
  // In the order of these indices; empty: as they come.
  void AssignGreedily(std::span<const Commodity> commodities, std::span<const std::uint32_t> order);
  std::int32_t ChooseLeastLoaded(const Commodity& commodity);
  // The same in a Clos, where no candidates need to be listed: the spine.
  std::int32_t ChooseLeastLoadedSpine(const Clos& clos, const Commodity& commodity) const;
  // The occupancy holds the result's ways: subflows_ by entry of result_.paths.
  void Occupy(std::span<const Commodity> commodities);
  void TakePathsFromOccupancy();
  // Lowers the maximum load by chains of moves until it meets the lower bound, nothing more is
  // found, or the budget is used up.
  void Improve(std::int64_t& steps);
  bool RelieveLinksAboveLimit(std::int64_t& steps);
  // Among assignments of this maximum load: see Optimal.
  void ChooseFairest(std::span<const Commodity> commodities, const AssignOptions& options,
                     std::int64_t& steps);
  // The commodities of a group (a job) get links on which they meet so few flows that the load is
  // `level` at most, at the cost of others; false, and nothing is changed, if that fails.
  bool Shield(std::span<const std::uint32_t> group, std::span<const Commodity> commodities,
              std::int64_t level, std::int64_t& steps);

  FabricView& view_;
  Assignment result_;
  std::vector<std::int64_t> loads_;
  std::vector<std::uint32_t> hops_;
  EquitablePaths equitable_;
  Occupancy occupancy_;
  RatePredictor rates_;
  std::vector<SubflowId> subflows_;
  std::vector<std::int64_t> shares_;  // by way, as the occupancy counts them
};

}  // namespace espalier::controller
