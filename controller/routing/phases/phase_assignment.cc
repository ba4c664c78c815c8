#include "controller/routing/phases/phase_assignment.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "controller/routing/phases/phase_bounds.h"
#include "controller/routing/phases/phase_bundles.h"
#include "controller/routing/phases/phase_coloring.h"
#include "controller/routing/phases/phase_search.h"

namespace espalier::controller {
namespace {

// Problem: one path per flow for all phases, such that the worst load of any link over all phases
// that can meet is least, then the loads of each phase alone, and few flows move.
// Theorem: in a 2-tier Clos with S equal spines, let d(j, p, leaf) be the degree of a leaf in phase
// p of job j, and K_j the maximum of d(j, p, leaf) over phases and leaves. (1) Some link carries at
// least ceil(sum over j of max over p of d(j, p, leaf) / S), for every leaf: add up the worst loads
// of the leaf's S links, for the phases that load the leaf most. (2) If phases of a job have no
// flow in common, each has a proper edge colouring of K_j colours (Konig 1916), independent of the
// others. Put the K_1 + K_2 + ... colours of all jobs round robin on the spines: each spine gets at
// most ceil(sum of K_j / S), and a colour has one flow of each phase at a leaf. So the worst load
// is at most that. Both meet if the maxima K_j are reached at one leaf; for a single job, always.
// With common flows, (2) may fail: three flows of a leaf of which each two are busy together need
// three spines, although no phase has more than two flows. Where the maxima are at different
// leaves, what is possible lies between (1) and (2), and the phases of a job must agree on the
// spines of every leaf that it shares with others. That is a search.
// Idea: three starts. (A) The present paths. (B) The solution of a smaller problem, in which the
// parallel flows between two hosts are one bundle: a search that moves flow by flow does not find
// its way from one solution to another if all flows of a host must take it together. (C) A
// colouring from scratch, with colours numbered to agree with the present paths. Each is improved
// by chains, and then by a walk that passes local optima. A later start wins if it is better: the
// lower maximum, then the smaller excess over the leaves' bounds, then the lower loads of phases
// alone, the most loaded one first, then the smaller excess over their bounds, then fewer moves. It
// must also be worth its moves (IsWorthItsMoves). Only (A) is tried if it reaches all bounds, and
// (C) only without (B), or if that misses the bound of the maximum. At the end of each search flows
// return home where this raises nothing.
// Invariant: the maximum never grows, and nothing moves if no link and no phase is above its bound.
// Cost: as in the header.
// Source: RLM, section 3.4; de Werra 1971 for equitable colourings.

// Shares of the budget, in per cent.
struct Effort {
  std::int64_t chains = 0;
  std::int64_t walk = 0;
};
constexpr Effort kPresent{.chains = 100, .walk = 6};
constexpr Effort kBundles{.chains = 25, .walk = 12};  // from their present paths
constexpr Effort kFreshBundles{.chains = 25, .walk = 25};
constexpr Effort kUnbundled{.chains = 25, .walk = 12};
constexpr Effort kFresh{.chains = 100, .walk = 12};

PhaseGoals GoalsOf(const PhaseProblem& problem, PhaseBounds bounds, const PhaseOptions& options) {
  if (options.every_leaf) return {std::move(bounds.even_share), std::move(bounds.alone)};
  PhaseGoals goals{std::vector<std::int64_t>(problem.link_count()), {}};
  for (std::uint32_t link = 0; link < problem.link_count(); ++link) {
    goals.links[link] = UnitsAtMost(problem.view(), bounds.all, link);
  }
  return goals;
}

std::vector<std::uint32_t> HomesOf(const PhaseProblem& problem) {
  std::vector<std::uint32_t> homes;
  for (std::uint32_t flow = 0; flow < problem.flow_count(); ++flow) {
    homes.push_back(problem.HomeOf(flow));
  }
  return homes;
}

// The routes from which the search from scratch starts: coloured, or none for movable flows.
std::vector<std::uint32_t> FreshRoutes(const PhaseProblem& problem) {
  if (auto colored = ColorPhases(problem)) return *std::move(colored);
  std::vector<std::uint32_t> routes = HomesOf(problem);
  for (std::uint32_t flow = 0; flow < routes.size(); ++flow) {
    if (problem.IsMovable(flow)) routes[flow] = PhaseProblem::kNoRoute;
  }
  return routes;
}

// Improves several starts, and keeps the best result. A later one must be worth its moves.
class BestSearch {
 public:
  BestSearch(const PhaseProblem& problem, const PhaseGoals& goals, const PhaseOptions& options)
      : problem_(problem), goals_(goals), options_(options) {}

  void Try(std::span<const std::uint32_t> start, const Effort& effort) {
    auto search =
        std::make_unique<PhaseSearch>(problem_, goals_, options_.step_budget * effort.chains / 100,
                                      options_.step_budget * effort.walk / 100);
    search->Start(start);
    search->Improve();
    PhaseSearch::Quality quality = search->Measure();
    if (best_ && !quality.IsWorthItsMoves(quality_)) return;
    best_ = std::move(search);
    quality_ = std::move(quality);
  }
  const PhaseSearch& best() const { return *best_; }
  const PhaseSearch::Quality& quality() const { return quality_; }
  bool IsDone() const { return best_->IsWithinGoals(); }

 private:
  const PhaseProblem& problem_;
  const PhaseGoals& goals_;
  const PhaseOptions& options_;
  std::unique_ptr<PhaseSearch> best_;
  PhaseSearch::Quality quality_;
};

// The routes of flows in bundles, from the solution of the small problem; none for other flows.
std::optional<std::vector<std::uint32_t>> BundledRoutes(const PhaseProblem& problem,
                                                        const PhaseOptions& options) {
  const auto bundles = PhaseBundles::Build(problem);
  if (!bundles) return std::nullopt;
  const PhaseProblem& small = bundles->small();
  const PhaseGoals goals = GoalsOf(small, ComputePhaseBounds(small), options);
  BestSearch search(small, goals, options);
  search.Try(HomesOf(small), kBundles);
  if (!search.IsDone()) search.Try(FreshRoutes(small), kFreshBundles);
  std::vector<std::uint32_t> routes = bundles->Expand(search.best().routes());
  for (std::uint32_t flow = 0; flow < routes.size(); ++flow) {
    if (problem.IsPlaced(flow) && !problem.IsMovable(flow)) routes[flow] = problem.HomeOf(flow);
  }
  return routes;
}

}  // namespace

PhaseAssignment AssignPhases(const FabricView& view, std::span<const std::int64_t> base_loads,
                             std::span<const PhaseFlow> flows, std::span<const PhasedJob> jobs,
                             const PhaseOptions& options) {
  const PhaseProblem problem(view, base_loads, flows, jobs);
  const PhaseBounds bounds = ComputePhaseBounds(problem);
  const PhaseGoals goals = GoalsOf(problem, bounds, options);

  BestSearch search(problem, goals, options);
  search.Try(HomesOf(problem), kPresent);
  bool is_fresh_due = !search.IsDone() && options.step_budget > 0;
  if (is_fresh_due) {
    if (const auto bundled = BundledRoutes(problem, options)) {
      search.Try(*bundled, kUnbundled);
      is_fresh_due = search.quality().max_load > bounds.all;
    }
  }
  if (is_fresh_due) search.Try(FreshRoutes(problem), kFresh);

  PhaseAssignment result;
  result.lower_bound = bounds.all;
  for (std::uint32_t flow = 0; flow < flows.size(); ++flow) {
    const std::uint32_t route = search.best().routes()[flow];
    const std::int32_t kept = flows[flow].movable ? kNoPath : flows[flow].path;
    result.paths.push_back(route == PhaseProblem::kNoRoute ? kept
                                                           : problem.RoutesOf(flow)[route].path);
  }
  result.max_load = search.quality().max_load;
  result.excess = search.quality().excess;
  result.alone = search.quality().alone;
  result.moved = search.quality().moved;
  result.is_optimal = result.max_load == result.lower_bound;
  return result;
}

}  // namespace espalier::controller
