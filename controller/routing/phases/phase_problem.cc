#include "controller/routing/phases/phase_problem.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "common/base/check.h"

namespace espalier::controller {

PhaseProblem::PhaseProblem(const FabricView& view, std::span<const std::int64_t> base_loads,
                           std::span<const PhaseFlow> flows, std::span<const PhasedJob> jobs,
                           std::span<const std::uint32_t> spines)
    : view_(view), flows_(flows), base_(view.capacities().size()) {
  ESPALIER_CHECK(base_loads.empty() || base_loads.size() == base_.size(), "base_loads={} links={}",
                 base_loads.size(), base_.size());
  for (std::uint32_t link = 0; link < base_loads.size(); ++link) {
    if (view.IsSwitchLink(link) && view.capacities()[link] > 0) base_[link] = base_loads[link];
  }
  FindRoutes(spines);
  FindGroups();
  TakeJobs(jobs);
  IndexPhasesByFlow();
}

void PhaseProblem::AppendRoute(std::int32_t path, std::uint32_t color,
                               std::span<const std::uint32_t> links) {
  routes_.push_back({path, color, static_cast<std::uint32_t>(hops_.size()),
                     static_cast<std::uint32_t>(links.size())});
  hops_.insert(hops_.end(), links.begin(), links.end());
}

void PhaseProblem::AppendRoutes(std::span<const std::uint32_t> spines, std::uint32_t source,
                                std::uint32_t destination) {
  if (source == destination) return;
  if (!view_.clos()) {
    const CandidatePaths& paths = view_.Candidates(source, destination);
    for (std::uint32_t path = 0; path < paths.size(); ++path) {
      if (!view_.IsUsable(paths.Hops(path))) continue;
      AppendRoute(static_cast<std::int32_t>(path), path, paths.Hops(path));
    }
    return;
  }
  const Clos& clos = *view_.clos();
  for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
    if (!spines.empty() && !std::ranges::binary_search(spines, spine)) continue;
    const std::array links = {clos.up[std::size_t{source} * clos.spines + spine],
                              clos.down[std::size_t{destination} * clos.spines + spine]};
    if (links[0] == kNoLink || links[1] == kNoLink || !view_.IsUsable(links)) continue;
    AppendRoute(clos.PathThrough(source, destination, spine), spine, links);
  }
}

void PhaseProblem::FindRoutes(std::span<const std::uint32_t> spines) {
  std::vector<std::uint32_t> order(flows_.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto ends = [&](std::uint32_t flow) {
    return std::pair(flows_[flow].source, flows_[flow].destination);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return ends(a) < ends(b); });
  pair_of_.resize(flows_.size());
  home_.assign(flows_.size(), kNoRoute);
  is_placed_.resize(flows_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t flow = order[i];
    const PhaseFlow& state = flows_[flow];
    ESPALIER_CHECK(state.share >= 0, "flow={} share={}", flow, state.share);
    if (i == 0 || ends(order[i - 1]) != ends(flow)) {
      first_route_.push_back(static_cast<std::uint32_t>(routes_.size()));
      AppendRoutes(spines, state.source, state.destination);
    }
    pair_of_[flow] = static_cast<std::uint32_t>(first_route_.size()) - 1;
  }
  first_route_.push_back(static_cast<std::uint32_t>(routes_.size()));
  for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
    const auto routes = RoutesOf(flow);
    const auto home = std::ranges::find(routes, flows_[flow].path, &Route::path);
    if (flows_[flow].path != kNoPath && home != routes.end()) {
      home_[flow] = static_cast<std::uint32_t>(home - routes.begin());
    }
    is_placed_[flow] = !routes.empty() && (flows_[flow].movable || home_[flow] != kNoRoute);
  }
}

std::uint32_t PhaseProblem::RouteOfColor(std::uint32_t flow, std::uint32_t color) const {
  const auto routes = RoutesOf(flow);
  if (color < routes.size() && routes[color].color == color) return color;
  const auto found = std::ranges::lower_bound(routes, color, {}, &Route::color);
  if (found == routes.end() || found->color != color) return kNoRoute;
  return static_cast<std::uint32_t>(found - routes.begin());
}

std::span<const PhaseProblem::Route> PhaseProblem::CommonRoutes() const {
  if (!view_.clos() || !view_.clos()->equal_rates) return {};
  std::span<const Route> common;
  for (std::uint32_t flow = 0; flow < flow_count(); ++flow) {
    if (!IsPlaced(flow)) continue;
    const auto routes = RoutesOf(flow);
    if (common.empty()) common = routes;
    if (!std::ranges::equal(common, routes, {}, &Route::color, &Route::color)) return {};
  }
  return common;
}

void PhaseProblem::FindGroups() {
  for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
    if (flows_[flow].group == PhaseFlow::kNoGroup || !is_placed_[flow]) continue;
    groups_.emplace_back(flows_[flow].group, flow);
  }
  std::ranges::sort(groups_);
}

bool PhaseProblem::Clashes(std::uint32_t flow, std::uint32_t route,
                           std::span<const std::uint32_t> routes) const {
  const std::uint32_t group = flows_[flow].group;
  if (group == PhaseFlow::kNoGroup) return false;
  auto member = std::ranges::lower_bound(groups_, std::pair(group, 0U));
  for (; member != groups_.end() && member->first == group; ++member) {
    const std::uint32_t other = member->second;
    if (other != flow && pair_of_[other] == pair_of_[flow] && routes[other] == route) return true;
  }
  return false;
}

void PhaseProblem::AddJob(std::vector<std::vector<std::uint32_t>> phases) {
  for (auto& phase : phases) {
    std::erase_if(phase, [&](std::uint32_t flow) {
      ESPALIER_CHECK(flow < flows_.size(), "flow={} flows={}", flow, flows_.size());
      return !is_placed_[flow];
    });
    std::ranges::sort(phase);
    phase.erase(std::unique(phase.begin(), phase.end()), phase.end());
  }
  // The largest first, so that a phase can only be part of one that is already there.
  std::ranges::stable_sort(phases,
                           [](const auto& a, const auto& b) { return a.size() > b.size(); });
  const std::uint32_t job = job_count();
  for (const auto& phase : phases) {
    if (phase.empty()) continue;
    bool is_part = false;
    for (std::uint32_t other = first_phase_.back(); other < phase_count() && !is_part; ++other) {
      is_part = std::ranges::includes(FlowsOf(other), phase);
    }
    if (is_part) continue;
    job_of_.push_back(job);
    members_.insert(members_.end(), phase.begin(), phase.end());
    first_member_.push_back(static_cast<std::uint32_t>(members_.size()));
  }
  if (phase_count() > first_phase_.back()) first_phase_.push_back(phase_count());
}

void PhaseProblem::TakeJobs(std::span<const PhasedJob> jobs) {
  for (const PhasedJob& job : jobs) AddJob(job.phases);
  std::vector<bool> is_in_phase(flows_.size());
  for (const std::uint32_t flow : members_) is_in_phase[flow] = true;
  std::vector<std::uint32_t> others;
  for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
    if (is_placed_[flow] && !is_in_phase[flow]) others.push_back(flow);
  }
  AddJob({std::move(others)});
}

void PhaseProblem::IndexPhasesByFlow() {
  first_phase_of_.assign(flows_.size() + 1, 0);
  for (const std::uint32_t flow : members_) ++first_phase_of_[flow + 1];
  std::partial_sum(first_phase_of_.begin(), first_phase_of_.end(), first_phase_of_.begin());
  phases_.resize(members_.size());
  std::vector<std::uint32_t> next(first_phase_of_.begin(), first_phase_of_.end() - 1);
  for (std::uint32_t phase = 0; phase < phase_count(); ++phase) {
    for (const std::uint32_t flow : FlowsOf(phase)) phases_[next[flow]++] = phase;
  }
}

}  // namespace espalier::controller
