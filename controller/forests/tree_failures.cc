// Of TreeJobs: forests for single failures, made before these happen.
#include <algorithm>
#include <utility>

#include "controller/forests/tree_jobs.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {
namespace {

using fabric::LinkId;
using fabric::NodeId;

// Between two of them: at least this, longer where only what other flows leave may have changed,
// and so many times what the last one took, so that they have a tenth of a processor.
constexpr Duration kPause = std::chrono::milliseconds(10);
constexpr Duration kPauseToLookAgain = std::chrono::milliseconds(100);
constexpr int kPausesAForest = 9;

std::uint64_t DigestOf(const std::vector<BitsPerSecond>& rates) {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;
  std::uint64_t digest = rates.size();
  for (const BitsPerSecond rate : rates) {
    digest = (digest ^ static_cast<std::uint64_t>(rate.value)) * kOdd;
    digest ^= digest >> 32U;
  }
  return digest;
}

}  // namespace

std::vector<LinkId> TreeJobs::LinksOf(FailurePlans::Element element) const {
  const std::size_t links = state_.topology.links().size();
  if (element < links) return {LinkId(static_cast<std::int32_t>(element))};
  const NodeId node(static_cast<std::int32_t>(element - links));
  std::vector<LinkId> of_node;
  for (std::size_t i = 0; i < links; ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    const fabric::Link& link = state_.topology.link(id);
    if (link.a == node || link.b == node) of_node.push_back(id);
  }
  return of_node;
}

// Links between switches, and switches that are no end of a path.
std::map<FailurePlans::Element, double> TreeJobs::LoadsOf(const JobPlan& plan) const {
  const std::size_t links = state_.topology.links().size();
  std::map<FailurePlans::Element, double> loads;
  for (const TreeEdge& edge : plan.forest->edges) {
    if (!edge.crossing) continue;
    const auto& hops = PathOf(*edge.crossing).hops;
    for (std::size_t i = 0; i < hops.size(); ++i) {
      loads[static_cast<FailurePlans::Element>(hops[i].link.Index())] += edge.crossing->rate_gbps;
      if (i + 1 == hops.size()) continue;
      const std::size_t node = links + state_.topology.To(hops[i]).Index();
      loads[static_cast<FailurePlans::Element>(node)] += edge.crossing->rate_gbps;
    }
  }
  return loads;
}

ForestRequest TreeJobs::MakeRequestWithout(const TreeJob& job,
                                           FailurePlans::Element element) const {
  auto trial = std::make_shared<fabric::Topology>(state_.topology);
  for (const LinkId link : LinksOf(element)) trial->SetLinkState(link, fabric::LinkState::kDown);
  return {.topology = std::move(trial),
          .available = WhatOthersLeave(&job, element),
          .name = job.spec.name,
          .collective = job.spec.collective,
          .ranks = job.ranks};
}

void TreeJobs::PlanAhead() {
  if (!options_.plan_ahead || ahead_ || ahead_timer_) return;
  const auto next = ready_.Next(state_.topology.version(), state_.path_changes);
  if (!next) return;
  const Duration least = next->is_missing ? kPause : kPauseToLookAgain;
  ahead_timer_ = loop_.After(std::max(ahead_pause_, least), [this] {
    ahead_timer_.reset();
    MakeAhead();
  });
}

void TreeJobs::MakeAhead() {
  // What is asked for now comes first; the next tick asks again.
  if (std::ranges::any_of(jobs_, [](const auto& job) { return job.second.planning != nullptr; })) {
    return;
  }
  const auto target = ready_.Next(state_.topology.version(), state_.path_changes);
  const auto job = target ? jobs_.find(target->job) : jobs_.end();
  if (job == jobs_.end() || !job->second.in_force) return;
  const TimePoint start = loop_.Now();
  auto request =
      std::make_shared<const ForestRequest>(MakeRequestWithout(job->second, target->element));
  // What is asked of a plan for flows that is behind is asked again.
  const bool is_known = failure_plans_.IsFresh(target->element);
  ReadyForest ready{.forest = nullptr,
                    .version = state_.topology.version(),
                    .others = DigestOf(request->available),
                    .changes = is_known ? state_.path_changes : ReadyForest::kUnknown};
  const ReadyForest* known = ready_.Find(target->job, target->element, ready.version);
  if (known != nullptr && known->others == ready.others) {
    ready_.Confirm(*target, ready.changes);
    ahead_pause_ = kPausesAForest * (loop_.Now() - start);
    return PlanAhead();
  }
  ahead_ = std::make_shared<std::atomic<bool>>(false);
  const auto result = std::make_shared<std::optional<Result<JobForest>>>();
  Run(
      [request, result, cancelled = ahead_] {
        if (cancelled->load()) return;
        *result = BuildJobForest(
            *request, {.cancelled = [&] { return cancelled->load(); }, .progress = nullptr});
      },
      [this, target = *target, ready, result, ahead = ahead_, start] {
        if (ahead_ != ahead) return;  // it was stopped
        ahead_.reset();
        ahead_pause_ = kPausesAForest * (loop_.Now() - start);
        TakeAhead(target, ready, std::move(**result));
        PlanAhead();
      });
}

void TreeJobs::TakeAhead(const ReadyForests::Target& target, ReadyForest ready,
                         Result<JobForest> forest) {
  if (ready.version != state_.topology.version()) return;
  if (forest) ready.forest = std::make_shared<const JobForest>(std::move(*forest));
  made_ahead_.Add();
  ready_.Put(target, std::move(ready));
}

void TreeJobs::StopAhead() {
  if (ahead_) ahead_->store(true);
  ahead_.reset();
}

std::optional<FailurePlans::Element> TreeJobs::FailedElement(
    std::span<const LinkId> changed) const {
  const bool have_failed = std::ranges::none_of(changed, [&](LinkId link) {
    return state_.topology.link(link).state == fabric::LinkState::kUp;
  });
  return have_failed ? failure_plans_.Find(changed) : std::nullopt;
}

// Every link that has changed has raised the version by one.
const ReadyForest* TreeJobs::FindReady(const std::string& job, std::span<const LinkId> changed,
                                       std::optional<FailurePlans::Element> failed) const {
  if (!failed || !options_.plan_ahead) return nullptr;
  const auto before = state_.topology.version() - static_cast<std::int64_t>(changed.size());
  const ReadyForest* ready = ready_.Find(job, *failed, before);
  if (ready == nullptr || !ready->forest) return nullptr;
  const bool is_usable = std::ranges::all_of(ready->forest->edges, [&](const TreeEdge& edge) {
    return !edge.crossing || fabric::IsUsable(state_.topology, PathOf(*edge.crossing));
  });
  return is_usable ? ready : nullptr;
}

void TreeJobs::HandleLinkChange(std::span<const LinkId> changed) {
  StopAhead();
  struct Repair {
    TreeJob* job = nullptr;
    std::shared_ptr<const JobForest> forest;
    bool is_exact = false;
  };
  std::vector<Repair> repairs;  // all are looked at before any has an effect
  std::vector<TreeJob*> others;
  const auto failed = FailedElement(changed);
  for (auto& [name, job] : jobs_) {
    const bool breaks =
        (job.in_force && !IsUsable(*job.in_force)) || (job.next && !IsUsable(*job.next));
    const bool may_help = !job.problem.empty() && !job.ranks.empty();
    if (!breaks && !may_help && !job.planning) continue;
    if (breaks && !job.broken_since) job.broken_since = loop_.Now();
    const ReadyForest* ready = breaks ? FindReady(name, changed, failed) : nullptr;
    if (breaks) (ready != nullptr ? ready_hits_ : ready_misses_).Add();
    if (ready == nullptr) {
      others.push_back(&job);
    } else {
      repairs.push_back({&job, ready->forest, DigestOf(WhatOthersLeave(&job)) == ready->others});
    }
  }
  for (const Repair& repair : repairs) {
    TreeJob& job = *repair.job;
    if (job.planning) job.planning->store(true);
    job.planning.reset();
    job.problem.clear();
    Begin(job, repair.forest, PlanOrigin::kFailure);
    // Other flows leave something else than was thought: this will do until there is a better one.
    if (!repair.is_exact) Plan(job);
  }
  for (TreeJob* job : others) Plan(*job);
  for (auto& [name, job] : jobs_) {
    if (!job.in_force || job.in_force->verbs) continue;
    job.in_force->asked_back.assign(job.in_force->ports.size(), false);
    if (LookBack(job)) request_turn_();
  }
}

}  // namespace espalier::controller
