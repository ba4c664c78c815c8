#include "controller/routing/phases/phase_bundles.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::uint32_t kMaxFactor = 16;
constexpr std::size_t kMostPairs = 16;  // flows of a class whose homes are compared

}  // namespace

void PhaseBundles::ListClasses() {
  for (std::uint32_t flow = 0; flow < problem_.flow_count(); ++flow) {
    if (problem_.IsPlaced(flow) && problem_.IsMovable(flow)) order_.push_back(flow);
  }
  const auto compare = [this](std::uint32_t a, std::uint32_t b) {
    const auto key = [this](std::uint32_t flow) {
      const PhaseFlow& state = problem_.FlowAt(flow);
      return std::tuple(state.source, state.destination, state.share);
    };
    if (const auto order = key(a) <=> key(b); order != 0) return order;
    const auto phases = problem_.PhasesOf(a);
    const auto others = problem_.PhasesOf(b);
    return std::lexicographical_compare_three_way(phases.begin(), phases.end(), others.begin(),
                                                  others.end());
  };
  std::ranges::stable_sort(order_, [&](std::uint32_t a, std::uint32_t b) {
    const auto order = compare(a, b);
    return order != 0 ? order < 0 : problem_.HomeOf(a) < problem_.HomeOf(b);
  });
  for (std::uint32_t i = 1; i <= order_.size(); ++i) {
    if (i == order_.size() || compare(order_[i - 1], order_[i]) != 0) first_.push_back(i);
  }
}

// The largest factor of which nearly all flows fill bundles, and nearly all spines groups.
bool PhaseBundles::ChooseFactor() {
  const auto spines = static_cast<std::uint32_t>(common_.size());
  for (factor_ = std::min(kMaxFactor, spines / 2); factor_ > 1; --factor_) {
    if (spines % factor_ * 8 > spines) continue;
    std::size_t left = 0;
    for (std::size_t c = 0; c + 1 < first_.size(); ++c)
      left += (first_[c + 1] - first_[c]) % factor_;
    if (left * 20 <= order_.size()) return true;
  }
  return false;
}

// Spines on which flows of one class are now belong together.
void PhaseBundles::GroupSpines() {
  const std::size_t spines = common_.size();
  std::vector<std::int64_t> together(spines * spines);
  for (std::size_t c = 0; c + 1 < first_.size(); ++c) {
    const std::size_t end = std::min<std::size_t>(first_[c + 1], first_[c] + kMostPairs);
    for (std::size_t i = first_[c]; i < end; ++i) {
      for (std::size_t k = first_[c]; k < end; ++k) {
        const std::uint32_t a = problem_.HomeOf(order_[i]);
        const std::uint32_t b = problem_.HomeOf(order_[k]);
        if (a != PhaseProblem::kNoRoute && b != PhaseProblem::kNoRoute) ++together[a * spines + b];
      }
    }
  }
  group_of_.assign(spines, PhaseProblem::kNoRoute);
  while ((groups_.size() + 1) * factor_ <= spines) {
    std::vector<std::uint32_t>& group = groups_.emplace_back();
    std::vector<std::int64_t> agreement(spines);
    while (group.size() < factor_) {
      std::uint32_t best = PhaseProblem::kNoRoute;
      for (std::uint32_t s = 0; s < spines; ++s) {
        if (group_of_[s] != PhaseProblem::kNoRoute) continue;
        if (best == PhaseProblem::kNoRoute || agreement[s] > agreement[best]) best = s;
      }
      group_of_[best] = static_cast<std::uint32_t>(groups_.size() - 1);
      group.push_back(best);
      for (std::size_t s = 0; s < spines; ++s) agreement[s] += together[best * spines + s];
    }
    std::ranges::sort(group);
  }
}

std::uint32_t PhaseBundles::GroupOf(std::uint32_t flow) const {
  const std::uint32_t home = problem_.HomeOf(flow);
  return home == PhaseProblem::kNoRoute ? PhaseProblem::kNoRoute : group_of_[home];
}

void PhaseBundles::AddBundle(std::span<const std::uint32_t> members) {
  // Its home is the group where most of its flows are.
  std::vector<std::uint32_t> count(groups_.size());
  for (const std::uint32_t flow : members) {
    if (GroupOf(flow) != PhaseProblem::kNoRoute) ++count[GroupOf(flow)];
  }
  const auto home = static_cast<std::size_t>(std::ranges::max_element(count) - count.begin());
  PhaseFlow bundle = problem_.FlowAt(members.front());
  bundle.group = PhaseFlow::kNoGroup;
  bundle.path = 2 * count[home] < factor_
                    ? kNoPath
                    : problem_.RoutesOf(members.front())[groups_[home].front()].path;
  flows_.push_back(bundle);
  bundles_.emplace_back(members.begin(), members.end());
}

// Flows that are in one group stay together.
void PhaseBundles::MakeBundles(std::span<const std::uint32_t> same) {
  std::vector<std::uint32_t> members(same.begin(), same.end());
  std::ranges::stable_sort(members, {}, [this](std::uint32_t flow) { return GroupOf(flow); });
  std::vector<std::uint32_t> rest;
  for (std::size_t begin = 0, end = 0; begin < members.size(); begin = end) {
    while (end < members.size() && GroupOf(members[end]) == GroupOf(members[begin])) ++end;
    for (; end - begin >= factor_; begin += factor_) {
      AddBundle(std::span(members).subspan(begin, factor_));
    }
    rest.insert(rest.end(), members.begin() + static_cast<std::ptrdiff_t>(begin),
                members.begin() + static_cast<std::ptrdiff_t>(end));
  }
  for (std::size_t begin = 0; begin + factor_ <= rest.size(); begin += factor_) {
    AddBundle(std::span(rest).subspan(begin, factor_));
  }
}

std::vector<std::int64_t> PhaseBundles::GroupBaseLoads() const {
  std::vector<std::int64_t> base(problem_.link_count());
  for (std::uint32_t link = 0; link < base.size(); ++link) base[link] = problem_.BaseOf(link);
  for (std::uint32_t flow = 0; flow < problem_.flow_count(); ++flow) {
    if (!problem_.IsPlaced(flow) || problem_.IsMovable(flow)) continue;
    for (const std::uint32_t link : problem_.LinksOf(flow, problem_.HomeOf(flow))) {
      base[link] += problem_.FlowAt(flow).share;
    }
  }
  const Clos& clos = *problem_.view().clos();
  const auto routes = common_;
  for (const auto* links : {&clos.up, &clos.down}) {
    for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
      for (const auto& group : groups_) {
        std::int64_t most = 0;
        for (const std::uint32_t route : group) {
          const std::uint32_t link =
              (*links)[std::size_t{leaf} * clos.spines + routes[route].color];
          if (link != kNoLink) most = std::max(most, base[link]);
        }
        const std::uint32_t link =
            (*links)[std::size_t{leaf} * clos.spines + routes[group.front()].color];
        if (link != kNoLink) base[link] = most;
      }
    }
  }
  return base;
}

std::vector<PhasedJob> PhaseBundles::BundleJobs() const {
  std::vector<PhasedJob> jobs(problem_.job_count());
  for (std::uint32_t job = 0; job < jobs.size(); ++job) {
    jobs[job].phases.resize(problem_.PhaseCountOf(job));
  }
  for (std::uint32_t i = 0; i < bundles_.size(); ++i) {
    for (const std::uint32_t phase : problem_.PhasesOf(bundles_[i].front())) {
      const std::uint32_t job = problem_.JobOf(phase);
      jobs[job].phases[phase - problem_.FirstPhaseOf(job)].push_back(i);
    }
  }
  return jobs;
}

std::unique_ptr<PhaseBundles> PhaseBundles::Build(const PhaseProblem& problem) {
  std::unique_ptr<PhaseBundles> bundles(new PhaseBundles(problem));
  if (bundles->common_.empty()) return nullptr;
  bundles->ListClasses();
  if (!bundles->ChooseFactor()) return nullptr;
  bundles->GroupSpines();
  for (std::size_t c = 0; c + 1 < bundles->first_.size(); ++c) {
    bundles->MakeBundles(
        std::span(bundles->order_)
            .subspan(bundles->first_[c], bundles->first_[c + 1] - bundles->first_[c]));
  }
  std::vector<std::uint32_t> spines;
  for (const auto& group : bundles->groups_) {
    spines.push_back(bundles->common_[group.front()].color);
  }
  std::ranges::sort(spines);
  bundles->small_ = std::make_unique<PhaseProblem>(problem.view(), bundles->GroupBaseLoads(),
                                                   bundles->flows_, bundles->BundleJobs(), spines);
  return bundles;
}

std::vector<std::uint32_t> PhaseBundles::Expand(
    std::span<const std::uint32_t> bundle_routes) const {
  std::vector<std::uint32_t> routes(problem_.flow_count(), PhaseProblem::kNoRoute);
  for (std::uint32_t i = 0; i < bundles_.size(); ++i) {
    const std::uint32_t color = small_->RoutesOf(i)[bundle_routes[i]].color;
    const auto first = std::ranges::lower_bound(common_, color, {}, &PhaseProblem::Route::color);
    std::vector<std::uint32_t> free =
        groups_[group_of_[static_cast<std::size_t>(first - common_.begin())]];
    for (const std::uint32_t flow : bundles_[i]) {
      const auto home = std::ranges::find(free, problem_.HomeOf(flow));
      if (home == free.end()) continue;
      routes[flow] = *home;
      free.erase(home);
    }
    for (const std::uint32_t flow : bundles_[i]) {
      if (routes[flow] != PhaseProblem::kNoRoute) continue;
      routes[flow] = free.back();
      free.pop_back();
    }
  }
  return routes;
}

}  // namespace espalier::controller
