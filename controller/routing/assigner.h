#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/exact/bundled_paths.h"
#include "controller/routing/exact/equitable_paths.h"
#include "controller/routing/exact/staged_paths.h"
#include "controller/routing/exact/uneven_paths.h"
#include "controller/routing/model/assignment.h"
#include "controller/routing/model/label_search.h"
#include "controller/routing/model/rates.h"
#include "controller/routing/model/shares.h"
#include "controller/routing/occupancy/occupancy.h"
#include "controller/routing/repair/ejection_search.h"

namespace espalier::controller {

struct AssignOptions {
  // By job; empty: 1 for all. A job of weight 2 should be twice as fast as one of weight 1.
  std::span<const std::uint32_t> job_weights;
  // How long Optimal may improve its result, in steps of about 100 ns: by local search if no
  // theorem gives the optimum, and among assignments of equal maximum load. 0: no improvement.
  // Repairs around the dead links of a folded Clos may take 40 times as long.
  std::int64_t step_budget = 200'000;
  // Load that no commodity causes, such as background traffic and reservations, by directed link in
  // 1 / kLoadUnit of a flow (>= 0); empty: none.
  std::span<const std::int64_t> base_loads;
  // The paths of commodities that cannot move, which the others are assigned around: by subflow, as
  // Assignment::paths; kNoPath for all subflows of the others; empty: all can move.
  std::span<const std::int32_t> fixed_paths;
  // How flows are divided over their subflows.
  Shares shares = Shares::kEqual;
  // By commodity, 1 if it does not send in proportion to the shares that it is told, so that they
  // must be equal; empty: all do.
  std::span<const std::uint8_t> is_rigid;
};

// Assigns paths to all commodities at once. An Assigner is a workspace: repeated assignments of
// similar size allocate nothing. Deterministic: same input, same output.
//
// At most kMaxTotalSubflows subflows in all, and 1 to kMaxSubflows for each commodity; anything
// else is a broken invariant. Commodities within one leaf take no path. Unroutable ones get kNoPath
// and do not affect the others. Results are valid until the next call. Thread safety: one thread
// per workspace (the view fills its cache, too).
class Assigner {
 public:
  // After link states have changed, call view.Refresh().
  explicit Assigner(FabricView& view)
      : view_(view),
        labels_(view),
        equitable_(view),
        staged_(view),
        bundled_(view),
        uneven_(view),
        ejection_(view),
        occupancy_(view),
        rates_(view) {}

  // Algorithm 1 of Routing for Large ML Models (section 3.4.1) over switch-to-switch links. Takes
  // the commodities in the caller's order and gives each subflow the usable path whose busiest
  // link, relative to its capacity, carries least so far; the lowest index (spine) among equals.
  // Guarantee: on a full 2-tier Clos with equal links at most twice the optimum (Theorem 2).
  // Complexity: O(total candidate hops).
  // Of the options, it heeds base loads and fixed paths.
  const Assignment& Greedy(std::span<const Commodity> commodities,
                           const AssignOptions& options = {});

  // Minimises the maximum load. The result is exact in a folded Clos of any number of tiers that is
  // not narrower upwards, or whose flows are all of one height (a 2-tier Clos, a fat-tree, rails;
  // StagedPaths has the conditions) and in a two-tier Clos of bundles (BundledPaths), if the links
  // of a tier have equal rates, what is dead is dead for all, all commodities have equally many
  // subflows, and there are neither base loads nor fixed paths. Otherwise it is the best assignment
  // found within the budget, never worse than Greedy; lower_bound shows the gap, and `proof` why
  // there is none. In a folded Clos of more than two tiers EjectionSearch repairs the assignment of
  // a fabric without dead links; the search over listed paths that follows is left out if there are
  // more than a million. Among assignments of equal maximum load, the result has the
  // lexicographically greatest vector of jobs' slowest rates that the budget allows to find. On up
  // to two tiers, if Greedy in the order of the paper's authors (PaperOrder) reaches the same load,
  // and nothing found makes jobs or their phases faster, its assignment is returned. If base loads
  // and fixed paths alone make a link the most loaded one, the maximum over the other links is
  // minimised. With options.shares, UnevenPaths' result if its maximum load is lower; the lower
  // bound is then that of flows that can be divided at will.
  const Assignment& Optimal(std::span<const Commodity> commodities,
                            const AssignOptions& options = {});

 private:
  // Takes the options into base_ and fixes paths in result_.
  void Begin(std::span<const Commodity> commodities, const AssignOptions& options);
  // Includes in the result what base loads and fixed paths alone put on links, and tells whether
  // the lower bound is met.
  void Finish();
  bool IsFixed(std::size_t entry) const { return !fixed_.empty() && fixed_[entry] != kNoPath; }
  // Of links that carry a subflow that can move.
  Load MaxLoad(std::span<const std::int64_t> loads);
  Load LowerBound(std::span<const Commodity> commodities, std::int64_t portion = 0);
  // In the order of these indices; empty: in the given order.
  void AssignGreedily(std::span<const Commodity> commodities, std::span<const std::uint32_t> order);
  std::int32_t ChooseLeastLoaded(const Commodity& commodity);
  // As ChooseLeastLoaded, for a Clos, without listing candidates; returns the spine.
  std::int32_t ChooseLeastLoadedSpine(const Clos& clos, const Commodity& commodity) const;
  // Takes the assignment of Greedy if it has a lower maximum load.
  void TakeGreedyIfBetter(std::span<const Commodity> commodities);
  // Divides flows unevenly, and tells whether it did: if that lowers the maximum load, or divides
  // few flows where the shares ask for it.
  bool DivideUnevenly(std::span<const Commodity> commodities, const AssignOptions& options);
  // Copies the result's paths to the occupancy; subflows_[entry] has result_.paths[entry].
  void Occupy(std::span<const Commodity> commodities);
  void TakePathsFromOccupancy();
  // Whether EjectionSearch applies: on more than two tiers, if all can move.
  bool CanRepair() const;
  // Repairs the paths of the result; false, with paths in any state, if the budget is used up.
  bool Repair(std::span<const Commodity> commodities, const Load& limit);
  // Repairs what stages give as if all links were up, to meet the bound of the tiers; false,
  // without any path, if that fails.
  bool RepairToBound(std::span<const Commodity> commodities);
  // Lowers the maximum load, as far as it can, by repairing the staged assignment, or the one as if
  // all links were up.
  void RepairStages(std::span<const Commodity> commodities, bool is_staged);
  // Lowers the maximum load by rearrangement chains until it meets the lower bound, no chain is
  // found, or the budget is used up.
  void Improve(std::int64_t& steps);
  bool RelieveLinksAboveLimit(std::int64_t& steps);
  // Improves fairness at the same maximum load: see Optimal.
  void ChooseFairest(std::span<const Commodity> commodities, const AssignOptions& options,
                     std::int64_t& steps);
  // Moves other flows away from the links of a group (a job or phase), so that the load that its
  // commodities see is at most `level`. False, without any change, if that fails.
  bool Shield(std::span<const std::uint32_t> group, std::span<const Commodity> commodities,
              std::int64_t level, std::int64_t& steps);

  FabricView& view_;
  Assignment result_;
  std::vector<std::int64_t> loads_;
  std::span<const std::int32_t> fixed_;       // AssignOptions::fixed_paths
  std::vector<std::int64_t> base_;            // base loads and those of fixed paths, by link
  bool has_base_ = false;                     // any of these is not 0
  std::vector<std::int64_t> assigned_loads_;  // scratch
  std::vector<Commodity> movable_;            // scratch
  std::vector<std::uint32_t> hops_;
  LabelSearch labels_;
  EquitablePaths equitable_;
  StagedPaths staged_;
  BundledPaths bundled_;
  UnevenPaths uneven_;
  Assignment divided_;  // scratch
  EjectionSearch ejection_;
  std::int64_t repair_budget_ = 0;  // left for this assignment
  Occupancy occupancy_;
  RatePredictor rates_;
  std::vector<SubflowId> subflows_;   // kNoSubflow: its path is fixed
  std::vector<std::int64_t> shares_;  // by subflow, as the occupancy counts them
};

}  // namespace espalier::controller
