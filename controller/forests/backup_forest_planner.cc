#include "controller/forests/backup_forest_planner.h"

#include <algorithm>
#include <utility>

#include "controller/forests/residual_capacity.h"

namespace espalier::controller {

using fabric::LinkId;

namespace {

// The pause between two forests: at least kPause, longer if only the residual capacity may have
// changed, and kPausesAForest times the duration of the last one, so that the work takes a tenth of
// a processor.
constexpr Duration kPause = std::chrono::milliseconds(10);
constexpr Duration kPauseToLookAgain = std::chrono::milliseconds(100);
constexpr int kPausesAForest = 9;

std::vector<LinkId> LinksOf(const fabric::Topology& topology, LinkOrSwitch domain) {
  std::vector<LinkId> links;
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const LinkId link(static_cast<std::int32_t>(i));
    if (domain.Includes(topology, link)) links.push_back(link);
  }
  return links;
}

// The load of the plan on each failure domain: links between switches, and switches that are not
// the ends of a path.
std::map<LinkOrSwitch, double> LoadsOf(const State& state, const JobPlan& plan) {
  std::map<LinkOrSwitch, double> loads;
  for (const TreeEdge& edge : plan.forest->edges) {
    if (!edge.crossing) continue;
    const auto& hops = PathOf(state, *edge.crossing).hops;
    for (std::size_t i = 0; i < hops.size(); ++i) {
      loads[LinkOrSwitch::Link(hops[i].link)] += edge.crossing->rate_gbps;
      if (i + 1 == hops.size()) continue;
      loads[LinkOrSwitch::Switch(state.topology.To(hops[i]))] += edge.crossing->rate_gbps;
    }
  }
  return loads;
}

}  // namespace

void RunInBackground(const ControllerOptions& options, EventLoop& loop, std::function<void()> work,
                     std::function<void()> done) {
  if (options.background) return options.background(std::move(work), std::move(done));
  loop.Post([work = std::move(work), done = std::move(done)] {
    work();
    done();
  });
}

BackupForestPlanner::BackupForestPlanner(State& state, FailurePlans& failure_plans,
                                         const TreeJobTable& jobs, const ControllerOptions& options,
                                         EventLoop& loop, Metrics& metrics)
    : state_(state),
      failure_plans_(failure_plans),
      jobs_(jobs),
      options_(options),
      loop_(loop),
      ready_(metrics),
      paced_(loop, kPausesAForest),
      precomputed_(
          metrics.MakeCounter("espalier_forest_failure_plans_made_total",
                              "Backup forests precomputed for the failure of a link or switch")) {}

void BackupForestPlanner::Follow(const std::string& job, const JobPlan& plan) {
  ready_.SetDomains(job, LoadsOf(state_, plan));
}

ForestRequest BackupForestPlanner::MakeRequestWithout(const TreeJob& job,
                                                      LinkOrSwitch domain) const {
  auto trial = std::make_shared<fabric::Topology>(state_.topology);
  for (const LinkId link : LinksOf(state_.topology, domain))
    trial->SetLinkState(link, fabric::LinkState::kDown);
  return {.topology = std::move(trial),
          .available = ResidualCapacity(state_, failure_plans_, &job, domain),
          .name = job.spec.name,
          .collective = job.spec.collective,
          .ranks = job.ranks,
          .one_nic = MustUseOneNic(state_, job.spec, job.ranks),
          .whole_program = TakeWholePrograms(state_, job.ranks)};
}

void BackupForestPlanner::Request() {
  if (!options_.plan_ahead || cancel_ || paced_.IsAwaited()) return;
  const auto next = ready_.Next(state_.topology.version(), state_.flow_paths.changes());
  if (!next) return;
  paced_.Request(next->is_missing ? kPause : kPauseToLookAgain, [this] { MakeNext(); });
}

// Computes the next backup forest in the background. A forest whose residual capacity is as it was
// assumed is only confirmed. Take drops the result if the topology has changed meanwhile.
void BackupForestPlanner::MakeNext() {
  // Forests that are needed now come first; the next tick tries again.
  if (std::ranges::any_of(jobs_, [](const auto& job) { return job.second.planning != nullptr; })) {
    return;
  }
  const auto target = ready_.Next(state_.topology.version(), state_.flow_paths.changes());
  const auto job = target ? jobs_.find(target->job) : jobs_.end();
  if (job == jobs_.end() || !job->second.active) return;
  const TimePoint start = loop_.Now();
  auto request =
      std::make_shared<const ForestRequest>(MakeRequestWithout(job->second, target->domain));
  // A result that rests on an outdated failure plan is checked again later.
  const bool is_known = failure_plans_.IsFresh(target->domain);
  BackupForest ready{.forest = nullptr,
                     .version = state_.topology.version(),
                     .others = DigestOf(request->available),
                     .changes = is_known ? state_.flow_paths.changes() : BackupForest::kUnknown};
  const BackupForest* known = ready_.Find(target->job, target->domain, ready.version);
  if (known != nullptr && known->others == ready.others) {
    ready_.Confirm(*target, ready.changes);
    paced_.RecordDuration(loop_.Now() - start);
    return Request();
  }
  cancel_ = std::make_shared<std::atomic<bool>>(false);
  const auto result = std::make_shared<std::optional<Result<JobForest>>>();
  RunInBackground(
      options_, loop_,
      [request, result, cancelled = cancel_] {
        if (cancelled->load()) return;
        *result = BuildJobForest(
            *request, {.cancelled = [&] { return cancelled->load(); }, .progress = nullptr});
      },
      [this, target = *target, ready, result, cancel = cancel_, start] {
        if (cancel_ != cancel) return;  // Stop was called
        cancel_.reset();
        paced_.RecordDuration(loop_.Now() - start);
        Take(target, ready, std::move(**result));
        Request();
      });
}

void BackupForestPlanner::Take(const BackupForests::Target& target, BackupForest ready,
                               Result<JobForest> forest) {
  if (ready.version != state_.topology.version()) return;
  if (forest) ready.forest = std::make_shared<const JobForest>(std::move(*forest));
  precomputed_.Add();
  ready_.Put(target, std::move(ready));
}

void BackupForestPlanner::Stop() {
  if (cancel_) cancel_->store(true);
  cancel_.reset();
}

std::optional<LinkOrSwitch> BackupForestPlanner::FailedDomain(
    std::span<const LinkId> changed) const {
  const bool have_failed = std::ranges::none_of(changed, [&](LinkId link) {
    return state_.topology.link(link).state == fabric::LinkState::kUp;
  });
  return have_failed ? failure_plans_.Find(changed) : std::nullopt;
}

// Each changed link raised the version by one, which gives the version before the change.
const BackupForest* BackupForestPlanner::Find(const std::string& job,
                                              std::span<const LinkId> changed,
                                              std::optional<LinkOrSwitch> failed) const {
  if (!failed || !options_.plan_ahead) return nullptr;
  const auto before = state_.topology.version() - static_cast<std::int64_t>(changed.size());
  const BackupForest* ready = ready_.Find(job, *failed, before);
  if (ready == nullptr || !ready->forest) return nullptr;
  const bool is_usable = std::ranges::all_of(ready->forest->edges, [&](const TreeEdge& edge) {
    return !edge.crossing || fabric::IsUsable(state_.topology, PathOf(state_, *edge.crossing));
  });
  return is_usable ? ready : nullptr;
}

}  // namespace espalier::controller
