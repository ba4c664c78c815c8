#include "controller/forests/tree_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "controller/forests/job_ranks.h"
#include "controller/forests/plan_reservations.h"
#include "controller/forests/residual_capacity.h"

namespace espalier::controller {
namespace {

// Versions grow with each plan and each epoch, and ranks agree on them as signed 64-bit integers.
// There is room for 2^38 epochs, of which agents can take 2^20 per start at most, and for 2^24
// plans in each. They begin above those of earlier releases, which used 2^32 versions per epoch, as
// long as these had fewer than 2^20 epochs.
std::uint64_t PlanVersion(std::uint64_t epoch, std::uint64_t plan) {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 52U;
  constexpr std::uint64_t kPlanBits = 24;
  return kFirst + (epoch << kPlanBits) + plan;
}

}  // namespace

TreeJobs::TreeJobs(State& state, PathLearner& learner, FailurePlans& failure_plans,
                   const ControllerOptions& options, EventLoop& loop,
                   std::function<void()> request_turn, Metrics& metrics)
    : state_(state),
      failure_plans_(failure_plans),
      options_(options),
      loop_(loop),
      request_turn_(std::move(request_turn)),
      ports_(state, learner, options, loop),
      failures_(state, failure_plans, jobs_, options, loop, metrics),
      forests_(metrics.MakeCounter("espalier_controller_forests_total",
                                   "Forests computed for jobs, except backup forests")),
      dropped_(
          metrics.MakeCounter("espalier_controller_forests_dropped_total",
                              "Forests dropped because a change outdated them during computation")),
      forest_seconds_(metrics.MakeLatency("espalier_controller_forest_seconds",
                                          "Time to compute a forest and its program")),
      ready_hits_(
          metrics.MakeCounter("espalier_forest_failure_plan_hits_total",
                              "Job plans that a failure broke while a backup forest was ready")),
      ready_misses_(
          metrics.MakeCounter("espalier_forest_failure_plan_misses_total",
                              "Job plans that a failure broke while no backup forest was ready")),
      repair_seconds_(metrics.MakeLatency(
          "espalier_controller_forest_repair_seconds",
          "Time from a failure that broke a job plan until a new plan was in force")) {}

TreeJobs::~TreeJobs() {
  for (const auto& [name, job] : jobs_) {
    if (job.planning) job.planning->store(true);
  }
}

Result<void> TreeJobs::Check(const JobSpec& spec) const {
  const auto ranks = ResolveRanks(state_.topology, spec);
  if (!ranks) return tl::unexpected<Error>(ranks.error());
  if (const auto known = jobs_.find(spec.name); known != jobs_.end()) {
    const bool same = known->second.spec == spec;
    return Fail(same ? ErrorCode::kAlreadyExists : ErrorCode::kFailedPrecondition,
                fmt::format("job {} is already running{}", spec.name,
                            same ? "" : ", with other ranks or options (stop it first)"));
  }
  for (std::size_t i = 0; i < ranks->size(); ++i) {
    const std::string& name = fabric::HostOf(state_.topology.node((*ranks)[i]));
    const auto id = state_.agents.FindByName(name);
    if (!id || !state_.agents.At(*id).peer) {
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format("rank {} ({}): agent {} is not connected (start it, or look at its log)", i,
                      spec.ranks[i], name));
    }
    const std::pair<const char*, bool> features[] = {{"collective", true},
                                                     {"offload", spec.offload},
                                                     {"verbs", spec.verbs},
                                                     {"job_user", !spec.user.empty()}};
    for (const auto& [feature, is_needed] : features) {
      if (!is_needed || state_.agents.At(*id).Has(feature)) continue;
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format("rank {} ({}): agent {} does not support \"{}\" (upgrade it, or check "
                      "its configuration)",
                      i, spec.ranks[i], name, feature));
    }
  }
  return {};
}

void TreeJobs::Prepare(const JobSpec& spec, std::function<void(Result<void>)> done) {
  auto ranks = ResolveRanks(state_.topology, spec);
  if (!ranks) return done(Propagate(ranks));
  failures_.Stop();
  const auto request =
      std::make_shared<const ForestRequest>(MakeRequest(spec, std::move(*ranks), nullptr));
  const auto result = std::make_shared<std::optional<Result<JobForest>>>();
  RunInBackground(
      options_, loop_, [request, result] { *result = BuildJobForest(*request); },
      [this, spec, request, result, done = std::move(done)] {
        forests_.Add();
        if (!**result) return done(tl::unexpected<Error>((*result)->error()));
        prepared_ = Prepared{spec, request->topology->version(),
                             std::make_shared<const JobForest>(std::move(***result))};
        done({});
      });
}

// A job that is started again under the same name gets another key.
JobKey TreeJobs::KeyOfJob(const std::string& name, const Intent& started) const {
  return state_.job_secret.Derive(
      "espalier job", fmt::format("{} {}", started.since.time_since_epoch().count(), name));
}

void TreeJobs::Apply(const IntentById& intents) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const auto next = std::next(job);
    const auto wanted = intents.find(job->first);
    if (wanted == intents.end() ||
        wanted->second.value !=
            IntentValue(StartedJob{job->second.spec, job->second.listen_ports})) {
      End(job->second);
      jobs_.erase(job);
    }
    job = next;
  }
  for (const auto& [name, intent] : intents) {
    if (jobs_.contains(name)) continue;
    Start(name, intent);
  }
  prepared_.reset();
}

void TreeJobs::Start(const std::string& name, const Intent& intent) {
  const auto* const started = std::get_if<StartedJob>(&intent.value);
  if (started == nullptr) {
    state_.history.Record(loop_.Now(), "job_unreadable",
                          fmt::format("job {}: its entry in the store cannot be read", name));
    return;
  }
  TreeJob& job = jobs_.try_emplace(name, TreeJob{.key = KeyOfJob(name, intent)}).first->second;
  job.spec = started->spec;
  job.listen_ports = started->listen_ports;
  auto ranks = ResolveRanks(state_.topology, job.spec);
  if (!ranks) {  // the topology has changed
    job.problem = ranks.error().message;
    return;
  }
  job.ranks = std::move(*ranks);
  if (prepared_ && prepared_->spec == job.spec && prepared_->version == state_.topology.version()) {
    Begin(job, prepared_->forest, DecisionOrigin::kReactive);
  } else {
    Plan(job);
  }
}

ForestRequest TreeJobs::MakeRequest(const JobSpec& spec, std::vector<fabric::NodeId> ranks,
                                    const TreeJob* job) const {
  const bool one_nic = MustUseOneNic(state_, spec, ranks);
  const bool whole_program = TakeWholePrograms(state_, ranks);
  return {.topology = std::make_shared<const fabric::Topology>(state_.topology),
          .available = ResidualCapacity(state_, failure_plans_, job),
          .name = spec.name,
          .collective = spec.collective,
          .ranks = std::move(ranks),
          .one_nic = one_nic,
          .whole_program = whole_program};
}

void TreeJobs::Plan(TreeJob& job) {
  failures_.Stop();
  if (job.planning) job.planning->store(true);
  job.planning = std::make_shared<std::atomic<bool>>(false);
  const auto request =
      std::make_shared<const ForestRequest>(MakeRequest(job.spec, job.ranks, &job));
  const auto result = std::make_shared<std::optional<Result<JobForest>>>();
  const TimePoint start = loop_.Now();
  RunInBackground(
      options_, loop_,
      [request, result, cancelled = job.planning] {
        *result = BuildJobForest(
            *request, {.cancelled = [&] { return cancelled->load(); }, .progress = nullptr});
      },
      [this, name = job.spec.name, planning = job.planning, result, start] {
        forests_.Add();
        forest_seconds_.ObserveSeconds(SecondsOf(loop_.Now() - start));
        TakeForest(name, planning, std::move(**result));
      });
}

void TreeJobs::TakeForest(const std::string& name,
                          const std::shared_ptr<std::atomic<bool>>& planning,
                          Result<JobForest> forest) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || found->second.planning != planning) {
    dropped_.Add();
    return;
  }
  TreeJob& job = found->second;
  job.planning.reset();
  job.problem.clear();
  if (!forest) {
    job.problem = forest.error().message;
    state_.history.RecordOf("jobs", loop_.Now(), "job_stuck",
                            fmt::format("job={} cause=\"{}\"", name, job.problem));
    return;
  }
  if (job.active && *job.active->forest == *forest) {
    if (job.next) ports_.Drop(*job.next);
    job.next.reset();
    return;
  }
  if (job.next && *job.next->forest == *forest) return;  // its ports are being learned
  Begin(job, std::make_shared<const JobForest>(std::move(*forest)), DecisionOrigin::kReactive);
}

std::size_t TreeJobs::ReplanAll() {
  for (auto& [name, job] : jobs_) {
    if (!job.ranks.empty()) Plan(job);
  }
  return jobs_.size();
}

void TreeJobs::Begin(TreeJob& job, std::shared_ptr<const JobForest> forest, DecisionOrigin origin) {
  std::vector<std::uint16_t> listen_ports = job.listen_ports;
  if (listen_ports.empty()) {
    listen_ports = job.active ? job.active->listen_ports : ChooseListenPorts(job.spec);
  }
  if (job.next) ports_.Drop(*job.next);
  job.next.reset();
  job.next = MakeJobPlan(state_, job, std::move(forest), std::move(listen_ports), origin);
  ChoosePorts(job);
  request_turn_();
}

void TreeJobs::ChoosePorts(TreeJob& job) {
  if (ports_.Choose(*job.next)) Activate(job);
}

void TreeJobs::Activate(TreeJob& job) {
  job.next->replaces_dead =
      job.active && (job.active->return_path_dead || !IsAlive(state_, *job.active));
  Deactivate(job);
  job.active = std::move(job.next);
  job.next.reset();
  job.active->version = PlanVersion(state_.epoch, ++plans_made_);
  ReserveEdges(state_, job, ports_, loop_.Now());
  DeliverPlans(state_, job);
  failures_.Follow(job.spec.name, *job.active);
  if (job.broken_since && IsUsable(state_, *job.active)) {
    repair_seconds_.ObserveSeconds(SecondsOf(loop_.Now() - *job.broken_since));
    job.broken_since.reset();
  }
  state_.history.RecordOf(
      "jobs", loop_.Now(), "job_planned",
      fmt::format("job={} plan={} origin={} edges={} crossing={} algbw_gbps={:.6g}", job.spec.name,
                  job.active->version, DecisionOriginName(job.active->origin),
                  job.active->forest->edges.size(), job.active->reserved.size(),
                  job.active->forest->algbw_gbps));
  request_turn_();
}

void TreeJobs::Deactivate(TreeJob& job) {
  if (!job.active) return;
  ReleaseEdges(state_, *job.active);
  ports_.Drop(*job.active);
  job.active.reset();
}

void TreeJobs::End(TreeJob& job) {
  failures_.Forget(job.spec.name);
  if (job.planning) job.planning->store(true);
  if (job.next) ports_.Drop(*job.next);
  EndPlans(state_, job);
  Deactivate(job);
  request_turn_();
}

void TreeJobs::ReplacePorts(TreeJob& job, std::string_view why) {
  state_.history.RecordOf("jobs", loop_.Now(), std::string(why),
                          fmt::format("job={}", job.spec.name));
  job.next =
      MakeJobPlan(state_, job, job.active->forest, job.active->listen_ports, job.active->origin);
}

// Gives a plan other ports if a return path has a dead link.
void TreeJobs::CheckReturnPaths(TreeJob& job, bool& has_asked) {
  JobPlan& plan = *job.active;
  const bool waits = ports_.CheckReturnPaths(plan);
  has_asked = has_asked || waits || plan.return_path_dead;
  if (!plan.return_path_dead || job.next || job.planning)
    return;  // the next plan has other ports anyway
  ReplacePorts(job, "job_return_path_dead");
  ChoosePorts(job);
}

void TreeJobs::HandleFindings() {
  bool has_asked = false;
  for (auto& [name, job] : jobs_) {
    if (!job.next && job.active && ports_.LeadsElsewhere(*job.active)) {
      ReplacePorts(job, "job_port_remapped");
    }
    if (job.active && !job.active->return_path_probed.empty()) CheckReturnPaths(job, has_asked);
    if (!job.next) continue;
    ChoosePorts(job);
    has_asked = true;
  }
  if (has_asked) request_turn_();
}

std::size_t TreeJobs::CountBroken(const fabric::Topology& topology) const {
  return static_cast<std::size_t>(std::ranges::count_if(jobs_, [&](const auto& of) {
    const auto breaks = [&](const auto& plan) {
      return plan && !IsUsable(state_, topology, *plan);
    };
    return breaks(of.second.active) || breaks(of.second.next);
  }));
}

void TreeJobs::HandleLinkChange(std::span<const fabric::LinkId> changed) {
  failures_.Stop();
  std::vector<Repair> repairs;  // all are found before any changes the load
  std::vector<TreeJob*> others;
  const auto failed = failures_.FailedDomain(changed);
  for (auto& [name, job] : jobs_) {
    const bool breaks = (job.active && !IsUsable(state_, *job.active)) ||
                        (job.next && !IsUsable(state_, *job.next));
    const bool may_help = !job.problem.empty() && !job.ranks.empty();
    if (!breaks && !may_help && !job.planning) continue;
    if (breaks && !job.broken_since) job.broken_since = loop_.Now();
    const BackupForest* ready = breaks ? failures_.Find(name, changed, failed) : nullptr;
    if (breaks) (ready != nullptr ? ready_hits_ : ready_misses_).Add();
    if (ready == nullptr) {
      others.push_back(&job);
    } else {
      repairs.push_back(
          {&job, ready->forest,
           DigestOf(ResidualCapacity(state_, failure_plans_, &job)) == ready->others});
    }
  }
  for (const Repair& repair : repairs) {
    TreeJob& job = *repair.job;
    if (job.planning) job.planning->store(true);
    job.planning.reset();
    job.problem.clear();
    Begin(job, repair.forest, DecisionOrigin::kFailure);
    // The residual capacity differs from the assumed one: a better forest may replace this one.
    if (!repair.is_exact) Plan(job);
  }
  for (TreeJob* job : others) Plan(*job);
  for (auto& [name, job] : jobs_) {
    if (!job.active || job.active->verbs) continue;
    job.active->return_path_probed.assign(job.active->ports.size(), false);
    bool has_asked = false;
    CheckReturnPaths(job, has_asked);
    if (has_asked) request_turn_();
  }
}

void TreeJobs::Tick(TimePoint now) {
  ports_.ReleaseRested(now);
  failures_.Request();
}

Result<void> TreeJobs::HandleReport(AgentId agent, const wire::CollectiveReport& report) {
  const auto found = jobs_.find(report.job);
  if (found == jobs_.end()) return {};  // the job has ended
  TreeJob& job = found->second;
  if (report.rank >= job.ranks.size() || AgentOfRank(state_, job, report.rank) != agent) {
    return Fail(ErrorCode::kInvalidArgument, "the rank belongs to another agent");
  }
  if (!report.error.empty()) {
    ++job.failures;
    job.last_failure = fmt::format("rank {}: {}", report.rank, report.error);
    state_.history.RecordOf(state_.agents.At(agent).name, loop_.Now(), "collective_failed",
                            fmt::format("job={} rank={} sequence={} error=\"{}\"", report.job,
                                        report.rank, report.sequence, report.error));
    return {};
  }
  job.collectives = std::max(job.collectives, report.sequence);
  job.last_bytes = report.bytes;
  job.last_duration_us = report.duration_us;
  return {};
}

JobStatus TreeJobs::StatusOf(const TreeJob& job) const {
  if (!job.problem.empty()) return JobStatus::kStuck;
  if (job.planning) return JobStatus::kPlanning;
  if (job.next || !job.active) return JobStatus::kLearning;
  return UnacknowledgedRanks(state_, job).empty() ? JobStatus::kReady : JobStatus::kPushing;
}

}  // namespace espalier::controller
