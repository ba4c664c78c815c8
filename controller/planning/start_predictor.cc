#include "controller/planning/start_predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <tuple>

namespace espalier::controller {
namespace {

constexpr std::size_t kPlannedSets = 8;  // upcoming sets of a job that get a plan
constexpr std::size_t kMaxStartsInPlan = 8'192;
constexpr std::uint32_t kMaxPortRounds = 16;  // how often ports of one plan are requested
constexpr Duration kImminent = std::chrono::milliseconds(20);
// A flow's reports are reviewed every (remaining time / kLooksAhead), within these bounds.
constexpr int kLooksAhead = 8;
constexpr Duration kMaxLook = std::chrono::seconds(1);

}  // namespace

// Problem: assigning a burst of arrivals takes time just when the flows want to send.
// Idea: each job has a CycleLearner, which groups flows into sets and forecasts when each starts.
// In the background, PlanNext tries the arrival of the next sets (AssignPredictedStarts) and keeps
// the outcome as a PrecomputedStart: up to two per set, one for the present paths, and one for
// those that remain after forecast departures. On arrival, Find looks for a plan that still holds.
// Invariant: a plan holds while topology version and path fingerprint are those for which it was
// made. Confirm updates them after each flow of the plan, so that the rest continues to hold.
// Cost: a plan costs twice its assignment; Find is O(plans of the job), at most 2 x kPlannedSets.

StartPredictor::StartPredictor(State& state, PathLearner& learner, const ControllerOptions& options,
                               Metrics& metrics)
    : state_(state),
      learner_(learner),
      options_(options),
      learning_(state, options, metrics),
      plan_hits_(metrics.MakeCounter("espalier_prediction_plan_hits_total",
                                     "Flow arrivals that used their precomputed path")),
      plan_stale_hits_(metrics.MakeCounter("espalier_prediction_plan_stale_hits_total",
                                           "Flow arrivals that used an outdated precomputed path, "
                                           "as it keeps links within their even shares")),
      plan_misses_(
          metrics.MakeCounter("espalier_prediction_plan_misses_total",
                              "Predicted flow arrivals without a usable precomputed path")),
      plans_made_(metrics.MakeCounter("espalier_prediction_plans_computed_total",
                                      "Assignments computed for predicted starts")),
      jobs_known_(metrics.MakeGauge("espalier_prediction_jobs", "Jobs known to the predictor")),
      jobs_off_(
          metrics.MakeGauge("espalier_prediction_jobs_disabled",
                            "Jobs for which prediction is off because it was wrong too often")) {}

void StartPredictor::HandleProgress(std::span<const FlowSlot> due, TimePoint now) {
  now_ = now;
  for (const FlowSlot slot : due) {
    if (!learning_.PlaceOf(slot)) {
      state_.flows.IgnoreReportsBefore(slot, TimePoint::max());
      continue;
    }
    const FlowActivity& activity = state_.flows.ActivityOf(slot);
    if (!learning_.ends().IsLive(slot) || now < activity.next_review) continue;
    learning_.ends().SetPlannedRate(slot, PlannedRate(state_.flows.At(slot)));
    learning_.ends().TakeReport(slot, now, activity.remaining_bytes, activity.achieved_bps,
                                activity.outstanding_bytes);
    // Review a flow more often as its end approaches.
    const auto left = learning_.ends().ExpectedEnd(slot).value_or(now) - now;
    state_.flows.IgnoreReportsBefore(
        slot, now + std::clamp(left / kLooksAhead, JobLearning::kMinLook, kMaxLook));
  }
}

double StartPredictor::PlannedRate(const Flow& flow) {
  double rate = 0;
  for (const Subflow& subflow : flow.subflows) {
    const auto share = static_cast<double>(ShareOf(flow, subflow));
    if (!subflow.id || state_.flow_paths.assigner().PathOf(*subflow.id) < 0) return 0;
    double subflow_rate = static_cast<double>(state_.view.unit_bps());
    for (const std::uint32_t link : state_.flow_paths.assigner().LinksOf(*subflow.id)) {
      const auto load = static_cast<double>(state_.flow_paths.assigner().LoadOf(link));
      const auto capacity = static_cast<double>(state_.view.capacities()[link]);
      subflow_rate = std::min(subflow_rate, capacity * share / std::max(load, share));
    }
    rate += subflow_rate;
  }
  return rate;
}

void StartPredictor::Tick(TimePoint now) {
  now_ = now;
  int off = 0;
  for (const auto& job : learning_.jobs()) {
    learning_.Tick(*job, now);
    Refresh(*job);
    RecordSwitch(*job, now);
    off += job->learner.IsOn() ? 0 : 1;
  }
  jobs_known_.Set(static_cast<double>(learning_.jobs().size()));
  jobs_off_.Set(off);
}

void StartPredictor::Refresh(LearnedJob& job) {
  if (job.seen_changes == job.learner.changes()) return;
  job.seen_changes = job.learner.changes();
  job.upcoming = job.learner.Upcoming();
  if (job.upcoming.size() > kPlannedSets) job.upcoming.resize(kPlannedSets);
  std::erase_if(job.precomputed, [&](const PrecomputedStart& plan) {
    return std::none_of(job.upcoming.begin(), job.upcoming.end(),
                        [&](const auto& next) { return next.set == plan.set; });
  });
  if (job.templates.size() > 2 * CycleOptions{}.max_members) job.templates.clear();
}

void StartPredictor::RecordSwitch(LearnedJob& job, TimePoint now) {
  if (job.was_on == job.learner.IsOn()) return;
  job.was_on = job.learner.IsOn();
  state_.history.RecordOf(
      "jobs", now, job.was_on ? "prediction_enabled" : "prediction_disabled",
      fmt::format("job={} share_predicted={:.3f}", state_.flows.JobName(job.name),
                  job.learner.share_predicted()));
}

bool StartPredictor::Holds(const PrecomputedStart& plan) const {
  return plan.version == state_.topology.version() &&
         plan.fingerprint == state_.flow_paths.fingerprint() &&
         (plan.decided.moves.empty() || plan.changes == state_.flow_paths.changes());
}

std::span<const std::int32_t> StartPredictor::PathsIn(const PrecomputedStart& plan, Key key,
                                                      std::size_t subflows) {
  const auto found = plan.subflows.find(key);
  if (found == plan.subflows.end() || found->second.second != subflows) return {};
  const auto paths = std::span(plan.decided.paths).subspan(found->second.first, subflows);
  const bool has_all = std::find(paths.begin(), paths.end(), kNoPath) == paths.end();
  return has_all ? paths : std::span<const std::int32_t>();
}

std::optional<StartPredictor::Planned> StartPredictor::Find(FlowSlot slot) {
  found_ = nullptr;
  const auto place = learning_.PlaceOf(slot);
  if (!place || !place->job->learner.IsOn()) return std::nullopt;
  std::optional<Planned> best;
  for (PrecomputedStart& plan : place->job->precomputed) {
    const auto paths = PathsIn(plan, place->key, state_.flows.At(slot).subflows.size());
    const bool holds = Holds(plan);
    const bool is_of_this_fabric = plan.version == state_.topology.version();
    if (paths.empty() || !is_of_this_fabric || (best && !holds)) continue;
    found_ = &plan;
    best = Planned{.paths = paths, .holds = holds};
    if (!holds) continue;
    best->moves = plan.decided.moves;
    break;
  }
  found_key_ = place->key;
  return best;
}

void StartPredictor::Confirm(const Planned& planned) {
  (planned.holds ? plan_hits_ : plan_stale_hits_).Add();
  if (planned.holds) {
    found_->fingerprint = state_.flow_paths.fingerprint();
    found_->changes = state_.flow_paths.changes();
    found_->decided.moves.clear();
  }
  found_->subflows.erase(found_key_);
  found_->is_used_up = found_->subflows.empty();
}

void StartPredictor::CountMiss(FlowSlot slot) {
  if (learning_.TakeMiss(slot)) plan_misses_.Add();
}

StartPredictor::Remainder StartPredictor::RemainderAt(TimePoint until) {
  Remainder remainder{.fingerprint = state_.flow_paths.fingerprint()};
  for (const FlowSlot slot : learning_.ends().EndingBy(until)) {
    const Flow& flow = state_.flows.At(slot);
    for (const Subflow& subflow : flow.subflows) {
      const auto path = state_.flow_paths.PathOf(subflow);
      if (!path || flow.is_parked) continue;
      remainder.ending.push_back(*subflow.id);
      remainder.fingerprint -= FingerprintOf(state_.view, flow, subflow, path->value());
    }
  }
  return remainder;
}

PrecomputedStart StartPredictor::Make(LearnedJob& job, SetId set, const Remainder& remainder,
                                      bool assumes_ends) {
  // In the order of an assignment on arrival, as far as it is known.
  std::vector<std::pair<Key, const LearnedJob::Template*>> members;
  for (const SetMember& member : job.learner.MembersOf(set)) {
    const auto found = job.templates.find(member.key);
    if (found == job.templates.end() || (found->second.is_open && !assumes_ends)) continue;
    members.emplace_back(member.key, &found->second);
  }
  if (members.size() > kMaxStartsInPlan) members.resize(kMaxStartsInPlan);
  std::stable_sort(members.begin(), members.end(), [&](const auto& a, const auto& b) {
    return state_.agents.At(a.second->agent).name < state_.agents.At(b.second->agent).name;
  });
  PrecomputedStart plan{.set = set,
                        .version = state_.topology.version(),
                        .fingerprint = remainder.fingerprint,
                        .assumes_ends = assumes_ends};
  std::vector<PredictedStart> starts;
  std::uint32_t first = 0;
  for (const auto& [key, member] : members) {
    starts.push_back({*state_.view.LeafOf(member->source_leaf),
                      *state_.view.LeafOf(member->destination_leaf), member->subflows});
    plan.subflows.emplace(key, std::pair(first, member->subflows));
    first += member->subflows;
  }
  const OnlineAssigner::Options chains =
      ChainOptions(options_, assumes_ends ? 0 : options_.moves_per_start);
  plan.decided = state_.flow_paths.Try([&](OnlineAssigner& assigner) {
    return AssignPredictedStarts(assigner, starts, remainder.ending, chains);
  });
  plan.changes = state_.flow_paths.changes();
  plan.made = ++made_;
  plans_made_.Add();
  return plan;
}

bool StartPredictor::IsParked(const LearnedJob& job, SetId set) const {
  constexpr std::size_t kMost = 64;
  const auto members = job.learner.MembersOf(set);
  const auto some = members.first(std::min(members.size(), kMost));
  return std::ranges::all_of(some, [&](const SetMember& member) {
    const auto found = job.templates.find(member.key);
    return found != job.templates.end() && found->second.is_open &&
           state_.flows.At(found->second.slot).is_parked;
  });
}

bool StartPredictor::PlanFor(LearnedJob& job, const CycleLearner::Next& next) {
  if (IsParked(job, next.set)) return false;
  for (const bool assumes_ends : {false, true}) {
    Remainder remainder{.fingerprint = state_.flow_paths.fingerprint()};
    if (assumes_ends) {
      if (!next.expected) continue;
      remainder = RemainderAt(std::max(*next.expected, now_));
      if (remainder.ending.empty()) continue;
    }
    const auto present = std::ranges::find_if(job.precomputed, [&](const PrecomputedStart& plan) {
      return plan.set == next.set && plan.assumes_ends == assumes_ends;
    });
    if (present != job.precomputed.end()) {
      const bool rests_on_it =
          present->version == state_.topology.version() &&
          present->fingerprint == remainder.fingerprint &&
          (present->decided.moves.empty() || present->changes == state_.flow_paths.changes());
      if (rests_on_it && !present->is_used_up) continue;
      *present = Make(job, next.set, remainder, assumes_ends);
    } else {
      job.precomputed.push_back(Make(job, next.set, remainder, assumes_ends));
    }
    return true;
  }
  return false;
}

void StartPredictor::RequestPorts(LearnedJob& job, PrecomputedStart& plan) {
  plan.lacks_ports = false;
  ++plan.port_rounds;
  for (const auto& [key, subflows] : plan.subflows) {
    const auto member = job.templates.find(key);
    if (member == job.templates.end()) continue;
    for (std::uint32_t i = 0; i < subflows.second; ++i) {
      const std::int32_t path = plan.decided.paths[subflows.first + i];
      if (path == kNoPath) continue;
      const fabric::PathIndex index(path);
      const auto port = ChoosePort(state_.path_map, member->second.port_key, index,
                                   state_.flow_paths.ports(), PortNeed::kSure, 0);
      if (!port && !learner_.RequestPort(member->second.port_key, index)) plan.lacks_ports = true;
    }
  }
}

std::vector<StartPredictor::Wanted> StartPredictor::WantedPlans() {
  std::vector<Wanted> wanted;
  for (const auto& job : learning_.jobs()) {
    if (!job->learner.IsOn()) continue;
    Refresh(*job);
    for (std::size_t i = 0; i < job->upcoming.size(); ++i) {
      const CycleLearner::Next& next = job->upcoming[i];
      Wanted& plan = wanted.emplace_back(
          Wanted{.due = next.expected.value_or(TimePoint::max()), .job = job.get(), .index = i});
      const bool is_due =
          next.expected && next.expected < now_ + kImminent && now_ < *next.expected + kImminent;
      if (!is_due && !job->learner.HasPartlyStarted(next.set)) continue;
      plan.due = TimePoint{};
      for (const PrecomputedStart& present : job->precomputed) {
        if (present.set == next.set) plan.last_made = std::max(plan.last_made, present.made);
      }
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::tie(a.due, a.last_made, a.job->name, a.index) <
           std::tie(b.due, b.last_made, b.job->name, b.index);
  });
  return wanted;
}

bool StartPredictor::PlanNext(TimePoint now) {
  now_ = now;
  const std::vector<Wanted> wanted = WantedPlans();
  for (const Wanted& plan : wanted) {
    if (PlanFor(*plan.job, plan.job->upcoming[plan.index])) return true;
  }
  for (const auto& job : learning_.jobs()) {
    for (PrecomputedStart& plan : job->precomputed) {
      const bool is_due = plan.port_rounds == 0 || ports_changed_;
      if (plan.lacks_ports && is_due && plan.port_rounds < kMaxPortRounds) {
        RequestPorts(*job, plan);
      }
    }
  }
  ports_changed_ = false;
  return false;
}

std::vector<StartPredictor::JobView> StartPredictor::Jobs() const {
  std::vector<JobView> views;
  for (const auto& job : learning_.jobs()) {
    CycleLearner& learner = job->learner;
    JobView view{.job = state_.flows.JobName(job->name),
                 .is_on = learner.IsOn(),
                 .predicted_starts = learner.errors().starts.count(),
                 .start_error_p50 = learner.errors().starts.AtMost(0.5),
                 .start_error_p90 = learner.errors().starts.AtMost(0.9),
                 .predicted_ends = learner.errors().ends.count(),
                 .end_error_p50 = learner.errors().ends.AtMost(0.5),
                 .end_error_p90 = learner.errors().ends.AtMost(0.9),
                 .bursts = job->bursts,
                 .bursts_ready = job->bursts - job->unready_bursts,
                 .sets = learner.set_count(),
                 .members = learner.member_count(),
                 .period = learner.Period()};
    if (const auto upcoming = learner.Upcoming(); !upcoming.empty()) {
      const CycleLearner::Next& next = upcoming.front();
      view.next_start = next.expected;
      view.uncertainty = next.uncertainty;
      view.confidence = next.confidence;
      view.next_flows = learner.MembersOf(next.set).size();
      view.is_planned = std::ranges::any_of(job->precomputed, [&](const PrecomputedStart& plan) {
        return plan.set == next.set && Holds(plan);
      });
    }
    views.push_back(std::move(view));
  }
  std::sort(views.begin(), views.end(),
            [](const JobView& a, const JobView& b) { return a.job < b.job; });
  return views;
}

}  // namespace espalier::controller
