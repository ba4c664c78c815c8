#include "controller/routing/phase_assignment.h"

#include <algorithm>
#include <cstdlib>
#include <cstdio>
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
// that can meet is least, and few flows move.
// Theorem: in a 2-tier Clos with S equal spines, let d(j, p, leaf) be the degree of a leaf in phase
// p of job j, and K_j the maximum of d(j, p, leaf) over phases and leaves. (1) Some link carries at
// least ceil(sum over j of max over p of d(j, p, leaf) / S), for every leaf: add up the worst loads
// of the leaf's S links, for the phases that load the leaf most. (2) If phases of a job have no
// flow in common, each has a proper edge colouring of K_j colours (Konig 1916), independent of the
// others. Put the K_1 + K_2 + ... colours of all jobs round robin on the spines: each spine gets at
// most ceil(sum of K_j / S), and a colour has one flow of each phase at a leaf. So the worst load
// is at most that. Both meet if the maxima K_j are reached at one leaf; for a single job, always.
// With common flows, (2) may fail: three flows of a leaf of which each two are busy together need
// three spines, although no phase has more than two flows.
// Idea: (A) keep the present paths, and relieve links above their bounds by chains. If that reaches
// all bounds, take it. (B) Else colour from scratch, with colours numbered to agree with the
// present paths, and relieve, too. The better one wins: the lower maximum, then the smaller excess
// over the leaves' bounds, then fewer moves. At the end flows return home where this raises
// nothing. Invariant: the maximum never grows, and nothing moves if no link is above its bound.
// Cost: as in the header.
// Source: RLM, section 3.4; de Werra 1971 for equitable colourings.

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

static const std::vector<int> SH = [] { std::vector<int> v{6, 12, 25, 12, 12}; if (const char* e = getenv("SH")) sscanf(e, "%d,%d,%d,%d,%d", &v[0], &v[1], &v[2], &v[3], &v[4]); return v; }();
// Improves several starts, and keeps the best result.
class BestSearch {
 public:
  BestSearch(const PhaseProblem& problem, const PhaseGoals& goals, const PhaseOptions& options)
      : problem_(problem), goals_(goals), options_(options) {}

  // Shares of the budget in per cent.
  void Try(std::span<const std::uint32_t> start, std::int64_t chain_share, std::int64_t walk_share) {
    auto search = std::make_unique<PhaseSearch>(problem_, goals_,
                                                options_.step_budget * chain_share / 100,
                                                options_.step_budget * walk_share / 100);
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
  search.Try(HomesOf(small), 25, SH[1]);
  if (!search.IsDone()) search.Try(FreshRoutes(small), 25, SH[2]);
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
  search.Try(HomesOf(problem), 100, SH[0]);
  bool is_bundled = false;
  if (!search.IsDone()) {
    if (const auto bundled = BundledRoutes(problem, options)) search.Try(*bundled, 25, SH[3]), is_bundled = true;
  }
  if (!search.IsDone() && (!is_bundled || search.quality().max_load > bounds.all)) search.Try(FreshRoutes(problem), 100, SH[4]);

  PhaseAssignment result;
  result.lower_bound = bounds.all;
  for (std::uint32_t flow = 0; flow < flows.size(); ++flow) {
    const std::uint32_t route = search.best().routes()[flow];
    const std::int32_t kept = flows[flow].movable ? kNoPath : flows[flow].path;
    result.paths.push_back(route == PhaseProblem::kNoRoute ? kept
                                                           : problem.RoutesOf(flow)[route].path);
  }
  const PhaseSearch::Quality quality = search.best().Measure();
  result.max_load = quality.max_load;
  result.moved = quality.moved;
  result.is_optimal = result.max_load == result.lower_bound;
  return result;
}

}  // namespace espalier::controller
