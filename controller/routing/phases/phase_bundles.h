#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "controller/routing/phases/phase_problem.h"

namespace espalier::controller {

// A smaller problem in place of a large one whose flows come in parallel, as those of hosts with
// several NICs do: flows of the same two leaves, phases and share are put into bundles of `factor`
// flows, and the spines into as many groups of `factor` spines. A bundle takes a group: each of its
// flows takes a spine of its own. What a bundle puts on each spine of its group is one flow, so a
// solution of the small problem has the same loads in the large one.
//
// Base loads of a group are the greatest of its spines', and unmovable flows count as base loads.
// Flows that fill no bundle are left to the caller. Groups and bundles are chosen such that present
// paths agree with them. O(flows log flows + spines squared x leaves). Thread safety: one thread.
class PhaseBundles {
 public:
  // None unless the fabric is a 2-tier Clos with equal links to the same spines, and nearly all
  // flows fill bundles. The problem must outlive it.
  static std::unique_ptr<PhaseBundles> Build(const PhaseProblem& problem);

  const PhaseProblem& small() const { return *small_; }
  // The routes of the large problem's flows, from those of the bundles; kNoRoute: in no bundle.
  std::vector<std::uint32_t> Expand(std::span<const std::uint32_t> bundle_routes) const;

 private:
  explicit PhaseBundles(const PhaseProblem& problem)
      : problem_(problem), common_(problem.CommonRoutes()) {}
  void ListClasses();
  bool ChooseFactor();
  void GroupSpines();
  void MakeBundles(std::span<const std::uint32_t> same);
  void AddBundle(std::span<const std::uint32_t> members);
  std::vector<std::int64_t> GroupBaseLoads() const;
  std::vector<PhasedJob> BundleJobs() const;
  std::uint32_t GroupOf(std::uint32_t flow) const;  // of its home; kNoRoute: none

  const PhaseProblem& problem_;
  std::span<const PhaseProblem::Route> common_;
  std::uint32_t factor_ = 0;
  std::vector<std::uint32_t> order_;     // movable flows, those of a class one after the other
  std::vector<std::uint32_t> first_{0};  // of each class, in order_
  std::vector<std::vector<std::uint32_t>> groups_;   // the routes (by common number) of each group
  std::vector<std::uint32_t> group_of_;              // by route; kNoRoute: in none
  std::vector<std::vector<std::uint32_t>> bundles_;  // flows
  std::vector<PhaseFlow> flows_;                     // bundles as flows
  std::unique_ptr<PhaseProblem> small_;
};

}  // namespace espalier::controller
