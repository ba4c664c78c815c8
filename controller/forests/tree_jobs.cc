#include "controller/forests/tree_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "controller/routing/assignment.h"

namespace espalier::controller {
namespace {

// Parts that a link is shared out in: finer ones make forests of more trees for little.
constexpr std::int64_t kShares = 12;

}  // namespace

std::string_view JobStatusName(JobStatus status) {
  switch (status) {
    case JobStatus::kPlanning:
      return "PLANNING";
    case JobStatus::kLearning:
      return "LEARNING";
    case JobStatus::kPushing:
      return "PUSHING";
    case JobStatus::kReady:
      return "READY";
    case JobStatus::kStuck:
      return "STUCK";
  }
  return "?";
}

TreeJobs::TreeJobs(State& state, PathLearner& learner, FailurePlans& failure_plans,
                   const ControllerOptions& options, EventLoop& loop,
                   std::function<void()> request_turn, Metrics& metrics)
    : state_(state),
      learner_(learner),
      failure_plans_(failure_plans),
      options_(options),
      loop_(loop),
      request_turn_(std::move(request_turn)),
      ready_(metrics),
      forests_(metrics.MakeCounter("espalier_controller_forests_total",
                                   "Forests that were made for jobs")),
      dropped_(metrics.MakeCounter("espalier_controller_forests_dropped_total",
                                   "Forests that a change overtook while they were made")),
      forest_seconds_(metrics.MakeLatency("espalier_controller_forest_seconds",
                                          "Until a forest and its program were made")),
      made_ahead_(metrics.MakeCounter("espalier_forest_failure_plans_made_total",
                                      "Forests made ahead for the failure of a link or switch")),
      ready_hits_(metrics.MakeCounter("espalier_forest_failure_plan_hits_total",
                                      "Plans of jobs that broke when a forest was ready")),
      ready_misses_(metrics.MakeCounter("espalier_forest_failure_plan_misses_total",
                                        "Plans of jobs that broke when no forest was ready")),
      repair_seconds_(metrics.MakeLatency(
          "espalier_controller_forest_repair_seconds",
          "From the failure under a job's plan until its new one was handed out")) {}

TreeJobs::~TreeJobs() {
  StopAhead();
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
                fmt::format("job {} runs already{}", spec.name,
                            same ? "" : ", with other ranks or options (stop it first)"));
  }
  for (std::size_t i = 0; i < ranks->size(); ++i) {
    const std::string& name = fabric::HostOf(state_.topology.node((*ranks)[i]));
    const auto id = state_.agents.FindByName(name);
    if (!id || !state_.agents.At(*id).peer) {
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("rank {} ({}): agent {} is not connected", i, spec.ranks[i], name));
    }
    const std::pair<const char*, bool> features[] = {{"collective", true},
                                                     {"offload", spec.offload},
                                                     {"verbs", spec.verbs},
                                                     {"job_user", !spec.user.empty()}};
    for (const auto& [feature, is_needed] : features) {
      if (!is_needed || state_.agents.At(*id).Has(feature)) continue;
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("rank {} ({}): agent {} does not know \"{}\" (upgrade it, or look "
                              "into its configuration)",
                              i, spec.ranks[i], name, feature));
    }
  }
  return {};
}

void TreeJobs::Run(std::function<void()> work, std::function<void()> done) {
  if (options_.background) return options_.background(std::move(work), std::move(done));
  loop_.Post([work = std::move(work), done = std::move(done)] {
    work();
    done();
  });
}

void TreeJobs::Prepare(const JobSpec& spec, std::function<void(Result<void>)> done) {
  auto ranks = ResolveRanks(state_.topology, spec);
  if (!ranks) return done(Propagate(ranks));
  StopAhead();
  const auto request =
      std::make_shared<const ForestRequest>(MakeRequest(spec, std::move(*ranks), nullptr));
  const auto result = std::make_shared<std::optional<Result<JobForest>>>();
  Run([request, result] { *result = BuildJobForest(*request); },
      [this, spec, request, result, done = std::move(done)] {
        forests_.Add();
        if (!**result) return done(tl::unexpected<Error>((*result)->error()));
        prepared_ = Prepared{spec, request->topology->version(),
                             std::make_shared<const JobForest>(std::move(***result))};
        done({});
      });
}

// A job that is started again under its name has another key.
JobKey TreeJobs::KeyOfJob(const std::string& name, const Intent& started) const {
  return state_.job_secret.Derive(
      "espalier job", fmt::format("{} {}", started.since.time_since_epoch().count(), name));
}

void TreeJobs::Apply(const IntentById& intents) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const auto next = std::next(job);
    const auto wanted = intents.find(job->first);
    if (wanted == intents.end() ||
        wanted->second.detail != FormatStoredJob({job->second.spec, job->second.listens})) {
      End(job->second);
      jobs_.erase(job);
    }
    job = next;
  }
  for (const auto& [name, intent] : intents) {
    if (jobs_.contains(name)) continue;
    auto stored = ParseStoredJob(name, intent.detail);
    if (!stored) {
      state_.history.Record(loop_.Now(), "job_unreadable", stored.error().message);
      continue;
    }
    TreeJob& job = jobs_.try_emplace(name, TreeJob{.key = KeyOfJob(name, intent)}).first->second;
    job.spec = std::move(stored->spec);
    job.listens = std::move(stored->listens);
    auto ranks = ResolveRanks(state_.topology, job.spec);
    if (!ranks) {  // the topology is another than it was
      job.problem = ranks.error().message;
      continue;
    }
    job.ranks = std::move(*ranks);
    if (prepared_ && prepared_->spec == job.spec &&
        prepared_->version == state_.topology.version()) {
      Begin(job, prepared_->forest, PlanOrigin::kReactive);
    } else {
      Plan(job);
    }
  }
  prepared_.reset();
}

AgentId TreeJobs::AgentOfRank(const TreeJob& job, std::size_t rank) const {
  return state_.agents.Intern(fabric::HostOf(state_.topology.node(job.ranks[rank])));
}

ForestRequest TreeJobs::MakeRequest(const JobSpec& spec, std::vector<fabric::NodeId> ranks,
                                    const TreeJob* job) const {
  return {.topology = std::make_shared<const fabric::Topology>(state_.topology),
          .available = WhatOthersLeave(job),
          .name = spec.name,
          .collective = spec.collective,
          .ranks = std::move(ranks)};
}

// As if the job were one more flow on each link: what is there leaves it rate / (1 + load).
std::vector<BitsPerSecond> TreeJobs::WhatOthersLeave(
    const TreeJob* job, std::optional<FailurePlans::Element> failed) const {
  std::vector<std::int64_t> units(2 * state_.topology.links().size());
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.tree_load == 0 && state_.HasPaths(flow)) {
      for (const auto& [nic, sends] :
           {std::pair(flow.key.source, true), std::pair(flow.key.destination, false)}) {
        fabric::DirectedLink link = state_.paths.FindAttachment(nic)->uplink;
        if (!sends) link.forward = !link.forward;
        units[link.Index()] += kLoadUnit;
      }
    }
  }
  const std::vector<std::int64_t> loads = state_.live.Loads();
  for (std::size_t i = 0; i < loads.size(); ++i) units[i] += loads[i];
  if (job != nullptr && job->in_force) {
    for (const FlowSlot slot : job->in_force->flows) {
      const Flow& flow = state_.flows.At(slot);
      for (const auto hop : state_.PathsOf(flow)[flow.ways[0].port_path.Index()].hops) {
        units[hop.Index()] -= flow.tree_load;
      }
    }
  }
  if (failed) {
    failure_plans_.ForEachEscape(
        *failed, [&](LivePaths::Way way, std::int32_t from, std::int32_t to) {
          const Flow& flow = state_.flows.At(state_.owners[way].slot);
          const auto share = kLoadUnit / static_cast<std::int64_t>(flow.ways.size());
          const auto paths = state_.PathsOf(flow);
          for (const auto hop : paths[static_cast<std::size_t>(from)].hops) {
            units[hop.Index()] -= share;
          }
          for (const auto hop : paths[static_cast<std::size_t>(to)].hops) {
            units[hop.Index()] += share;
          }
        });
  }
  if (std::all_of(units.begin(), units.end(), [](std::int64_t load) { return load == 0; })) {
    return {};
  }
  std::vector<BitsPerSecond> available(units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::int64_t rate =
        state_.topology.link(fabric::DirectedLink::FromIndex(i).link).rate.value;
    const double load = static_cast<double>(units[i]) / static_cast<double>(kLoadUnit) *
                        static_cast<double>(state_.view.unit_bps()) / static_cast<double>(rate);
    const auto shares = static_cast<std::int64_t>(static_cast<double>(kShares) / (1 + load) + 1e-9);
    available[i].value = units[i] <= 0 ? rate : rate / kShares * std::max<std::int64_t>(shares, 1);
  }
  return available;
}

void TreeJobs::Plan(TreeJob& job) {
  StopAhead();
  if (job.planning) job.planning->store(true);
  job.planning = std::make_shared<std::atomic<bool>>(false);
  const auto request =
      std::make_shared<const ForestRequest>(MakeRequest(job.spec, job.ranks, &job));
  const auto result = std::make_shared<std::optional<Result<JobForest>>>();
  const TimePoint start = loop_.Now();
  Run(
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
  if (job.in_force && *job.in_force->forest == *forest) {
    if (job.next) DropPorts(*job.next);
    job.next.reset();
    return;
  }
  if (job.next && *job.next->forest == *forest) return;  // it is learning its ports
  Begin(job, std::make_shared<const JobForest>(std::move(*forest)), PlanOrigin::kReactive);
}

std::size_t TreeJobs::PlanAllAnew() {
  for (auto& [name, job] : jobs_) {
    if (!job.ranks.empty()) Plan(job);
  }
  return jobs_.size();
}

const fabric::Path& TreeJobs::PathOf(const TreeEdge::Crossing& crossing) const {
  return state_.paths.Between(crossing.source_leaf,
                              crossing.destination_leaf)[crossing.path.Index()];
}

bool TreeJobs::IsUsable(const JobPlan& plan) const {
  return std::all_of(plan.forest->edges.begin(), plan.forest->edges.end(), [&](const auto& edge) {
    return !edge.crossing || fabric::IsUsable(state_.topology, PathOf(*edge.crossing));
  });
}

bool TreeJobs::IsAlive(const JobPlan& plan) const {
  return std::all_of(plan.forest->edges.begin(), plan.forest->edges.end(), [&](const auto& edge) {
    return !edge.crossing || fabric::IsAlive(state_.topology, PathOf(*edge.crossing));
  });
}

void TreeJobs::HandleFindings() {
  bool asked = false;
  for (auto& [name, job] : jobs_) {
    if (!job.next && job.in_force && LeadsElsewhere(*job.in_force)) {
      state_.history.RecordOf("jobs", loop_.Now(), "job_port_remapped",
                              fmt::format("job={}", name));
      job.next = NewPlan(job, job.in_force->forest, job.in_force->listens, job.in_force->origin);
    }
    if (job.in_force && !job.in_force->asked_back.empty()) asked = LookBack(job) || asked;
    if (!job.next) continue;
    ChoosePorts(job);
    asked = true;
  }
  if (asked) request_turn_();
}

Result<void> TreeJobs::HandleReport(AgentId agent, const wire::CollectiveReport& report) {
  const auto found = jobs_.find(report.job);
  if (found == jobs_.end()) return {};  // it has ended
  TreeJob& job = found->second;
  if (report.rank >= job.ranks.size() || AgentOfRank(job, report.rank) != agent) {
    return Fail(ErrorCode::kInvalidArgument, "the rank is another agent's");
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

std::vector<std::uint32_t> TreeJobs::UnacknowledgedRanks(const TreeJob& job) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const Agent& agent = state_.agents.At(AgentOfRank(job, rank));
    const auto held = agent.plans.find({job.spec.name, rank});
    const bool acknowledged = held != agent.plans.end() && held->second.generation != 0 &&
                              held->second.generation <= agent.acked_generation;
    if (!acknowledged) ranks.push_back(rank);
  }
  return ranks;
}

JobStatus TreeJobs::StatusOf(const TreeJob& job) const {
  if (!job.problem.empty()) return JobStatus::kStuck;
  if (job.planning) return JobStatus::kPlanning;
  if (job.next || !job.in_force) return JobStatus::kLearning;
  return UnacknowledgedRanks(job).empty() ? JobStatus::kReady : JobStatus::kPushing;
}

}  // namespace espalier::controller
