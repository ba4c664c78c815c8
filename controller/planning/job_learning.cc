#include "controller/planning/job_learning.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "common/base/random.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxJobs = 1'024;
constexpr std::size_t kMaxJobsOfHost = 64;  // jobs that one host was the first to name
constexpr std::uint32_t kMaxAlike = 64;     // open flows of one pair with different ordinals

std::uint64_t Hash(const fabric::PortKey& key) {
  // Ports and queue pairs may change with each connection, so they do not identify a flow.
  const auto pair = (static_cast<std::uint64_t>(key.source.value()) << 32U) |
                    static_cast<std::uint32_t>(key.destination.value());
  return PathFingerprint(static_cast<std::uint32_t>(pair >> 32U), static_cast<std::uint32_t>(pair),
                         key.protocol, 0);
}

// The key of a flow; flows between the same NICs differ by their ordinal.
MemberKey KeyOf(std::uint64_t pair, std::uint32_t ordinal) { return MemberKey(pair + ordinal); }

}  // namespace

JobLearning::JobLearning(State& state, const ControllerOptions& options, Metrics& metrics)
    : state_(state),
      options_(options),
      start_error_(metrics.MakeLatency(
          "espalier_prediction_start_error_seconds",
          "Difference between the predicted and the actual start of a set of flows")),
      end_error_(
          metrics.MakeLatency("espalier_prediction_end_error_seconds",
                              "Difference between the predicted and the actual end of a flow")) {}

LearnedJob* JobLearning::FindJob(std::uint32_t name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

bool JobLearning::MakeRoom(std::size_t host) {
  const auto is_of_host = [&](const auto& job) {
    return state_.flows.jobs().NamedBy(job->name) == host;
  };
  const auto of_host =
      static_cast<std::size_t>(std::count_if(jobs_.begin(), jobs_.end(), is_of_host));
  if (jobs_.size() < kMaxJobs && of_host < kMaxJobsOfHost) return true;
  const LearnedJob* oldest = nullptr;
  for (const auto& job : jobs_) {
    const bool may_go = job->open_flows == 0 && (of_host < kMaxJobsOfHost || is_of_host(job));
    if (!may_go) continue;
    if (oldest == nullptr || job->learner.last_start() < oldest->learner.last_start()) {
      oldest = job.get();
    }
  }
  if (oldest == nullptr) return false;
  ForgetJob(oldest->name);
  return true;
}

LearnedJob* JobLearning::AddJob(std::uint32_t name) {
  if (!MakeRoom(state_.flows.jobs().NamedBy(name))) return nullptr;
  jobs_.push_back(std::make_unique<LearnedJob>(name, CycleOptions{}));
  by_name_[name] = jobs_.back().get();
  return jobs_.back().get();
}

void JobLearning::ForgetJob(std::uint32_t name) {
  if (by_name_.erase(name) == 0) return;
  std::erase_if(jobs_, [&](const auto& job) { return job->name == name; });
}

void JobLearning::HandleOpened(std::span<const FlowSlot> slots) {
  for (const FlowSlot slot : slots) {
    if (!state_.flows.At(slot).subflows.empty()) Identify(slot);
  }
}

void JobLearning::Identify(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  LearnedJob* job = FindJob(flow.job);
  if (job == nullptr) job = AddJob(flow.job);
  if (known_.size() <= slot.Index()) known_.resize(slot.Index() + 1);
  Known& known = known_[slot.Index()];
  known = {};
  ++identity_changes_;
  if (job == nullptr) return;
  known.job = job;
  known.pair = Hash(flow.key);
  std::uint64_t& taken = job->ordinals[known.pair];
  known.ordinal =
      std::min<std::uint32_t>(static_cast<std::uint32_t>(std::countr_one(taken)), kMaxAlike - 1);
  taken |= std::uint64_t{1} << known.ordinal;
  known.key = KeyOf(known.pair, known.ordinal);
  ++job->open_flows;
  job->templates[known.key] = {.port_key = flow.key,
                               .source_leaf = flow.source_leaf,
                               .destination_leaf = flow.destination_leaf,
                               .subflows = static_cast<std::uint32_t>(flow.subflows.size()),
                               .agent = flow.agent,
                               .is_open = true,
                               .slot = slot};
}

void JobLearning::Begin(FlowSlot slot, TimePoint at, TimePoint now) {
  if (slot.Index() >= known_.size() || known_[slot.Index()].job == nullptr) return;
  Known& known = known_[slot.Index()];
  LearnedJob& job = *known.job;
  const FlowActivity& activity = state_.flows.ActivityOf(slot);
  const std::uint64_t remaining = activity.remaining_bytes;
  known.is_busy = true;
  known.may_miss = true;
  job.order.Add({.key = known.key, .slot = slot, .is_busy = true, .at = at, .bytes = remaining},
                now);
  Learn(job, now);
  ends_.Begin(slot, at, 0);
  job.learner.activity().Expect(known.key, known.number);
  const PhaseLearner::Burst usual = job.learner.UsualBurstOf(known.key);
  ends_.SetUsualDuration(slot, usual.length.duration, usual.length.deviation, usual.bytes);
  ends_.TakeReport(slot, at, remaining, 0, activity.outstanding_bytes);
  // What it usually sends tells more than the load of its path, until it has sent some of it.
  if (usual.bytes > 0) state_.flows.IgnoreReportsBefore(slot, at + kMinLook);
}

void JobLearning::Learn(LearnedJob& job, TimePoint now) {
  CycleLearner& learner = job.learner;
  const PredictionErrors& errors = learner.errors().starts;
  for (const EdgeOrder::Edge& edge : job.order.TakeDue(now)) {
    Known& known = known_[edge.slot.Index()];
    const bool is_the_same = known.job == &job && known.key == edge.key;
    if (is_the_same) learner.activity().Expect(edge.key, known.number);
    if (!edge.is_busy) {
      learner.HandleEnd(edge.key, edge.at, edge.bytes);
      continue;
    }
    const std::size_t starts = errors.count();
    learner.HandleStart(edge.key, edge.bytes, edge.at);
    if (is_the_same) known.number = learner.activity().NumberOf(edge.key);
    if (errors.count() != starts) start_error_.ObserveSeconds(SecondsOf(errors.last()));
  }
}

// Flows of a report lie anywhere in memory. Without this, each edge would wait for several lines,
// one after the other. The second loop needs what the first one has loaded.
void JobLearning::Prefetch(std::span<const MessageChange> edges) const {
  for (const MessageChange& edge : edges) {
    if (edge.slot.Index() < known_.size()) __builtin_prefetch(&known_[edge.slot.Index()], 1);
    ends_.Prefetch(edge.slot);
  }
  for (const MessageChange& edge : edges) {
    if (edge.slot.Index() >= known_.size()) continue;
    const Known& known = known_[edge.slot.Index()];
    if (known.job != nullptr) known.job->learner.activity().Prefetch(known.number);
  }
}

void JobLearning::HandleEdges(std::span<const MessageChange> edges, bool learns, TimePoint now) {
  Prefetch(edges);
  for (const MessageChange& edge : edges) {
    if (!edge.is_busy) {
      HandleIdle(edge.slot, edge.at, now);
    } else if (learns) {
      Begin(edge.slot, edge.at, now);
      if (known_.size() <= edge.slot.Index()) continue;
      if (LearnedJob* const job = known_[edge.slot.Index()].job) ++job->bursts;
    }
  }
}

void JobLearning::HandleUnready(std::span<const FlowSlot> slots) {
  for (const FlowSlot slot : slots) {
    if (slot.Index() >= known_.size()) continue;
    if (LearnedJob* const job = known_[slot.Index()].job) ++job->unready_bursts;
  }
}

void JobLearning::HandleIdle(FlowSlot slot, TimePoint at, TimePoint now) {
  if (slot.Index() >= known_.size() || !known_[slot.Index()].is_busy) return;
  Known& known = known_[slot.Index()];
  known.is_busy = false;
  if (const auto expected = ends_.ExpectedEnd(slot)) {
    end_error_.ObserveSeconds(std::abs(SecondsOf(at - *expected)));
  }
  ends_.End(slot);
  const std::uint64_t sent = state_.flows.ActivityOf(slot).announced_bytes;
  known.job->order.Add({.key = known.key, .slot = slot, .at = at, .bytes = sent - known.sent_bytes},
                       now);
  known.sent_bytes = sent;
  Learn(*known.job, now);
}

Result<std::size_t> JobLearning::Declare(const Schedule& schedule) {
  if (schedule.flows.empty()) return 0U;
  for (const auto& [source, destination] : schedule.flows) {
    for (const fabric::NodeId end : {source, destination}) {
      if (state_.paths.FindAttachment(end)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("\"{}\" is not a NIC of the fabric", state_.topology.node(end).id));
    }
  }
  const auto agent_of = [&](fabric::NodeId nic) {
    return state_.agents.Intern(fabric::HostOf(state_.topology.node(nic)));
  };
  const std::uint32_t number =
      state_.flows.JobIndex(schedule.job, agent_of(schedule.flows.front().first));
  LearnedJob* job = FindJob(number);
  if (job == nullptr) job = AddJob(number);
  if (job == nullptr)
    return Fail(ErrorCode::kResourceExhausted,
                "too many jobs are predicted already (retry when one has ended)");
  const std::size_t members_before = job->learner.member_count();
  std::unordered_map<std::uint64_t, std::uint32_t> alike;  // flows so far, by hash of the pair
  std::vector<MemberKey> members;
  for (const auto& [source, destination] : schedule.flows) {
    LearnedJob::Template member{.port_key = {.source = source, .destination = destination},
                                .source_leaf = state_.paths.FindAttachment(source)->leaf,
                                .destination_leaf = state_.paths.FindAttachment(destination)->leaf,
                                .agent = agent_of(source)};
    member.port_key.protocol =
        HashedProtocol(state_.paths, source, schedule.protocol, options_.fabric_hashes_protocol);
    if (member.source_leaf == member.destination_leaf) continue;
    const std::uint64_t pair = Hash(member.port_key);
    const std::uint32_t ordinal = alike[pair]++;
    if (ordinal >= kMaxAlike) continue;
    members.push_back(KeyOf(pair, ordinal));
    job->templates.try_emplace(members.back(), member);
  }
  job->learner.Declare(members, schedule.bytes_each, schedule.period);
  return job->learner.member_count() - members_before;
}

void JobLearning::HandleClosed(FlowSlot slot, TimePoint now) {
  HandleIdle(slot, now, now);
  if (slot.Index() >= known_.size() || known_[slot.Index()].job == nullptr) return;
  Known& known = known_[slot.Index()];
  ++identity_changes_;
  --known.job->open_flows;
  const auto member = known.job->templates.find(known.key);
  if (member != known.job->templates.end()) member->second.is_open = false;
  const auto taken = known.job->ordinals.find(known.pair);
  if (taken != known.job->ordinals.end()) {
    taken->second &= ~(std::uint64_t{1} << known.ordinal);
    if (taken->second == 0) known.job->ordinals.erase(taken);
  }
  known = {};
}

void JobLearning::Tick(LearnedJob& job, TimePoint now) {
  Learn(job, now);
  job.learner.Tick(job.order.CompleteUntil(now));
}

std::optional<JobLearning::Place> JobLearning::PlaceOf(FlowSlot slot) const {
  if (slot.Index() >= known_.size() || known_[slot.Index()].job == nullptr) return std::nullopt;
  return Place{known_[slot.Index()].job, known_[slot.Index()].key};
}

bool JobLearning::TakeMiss(FlowSlot slot) {
  if (slot.Index() >= known_.size() || !known_[slot.Index()].may_miss) return false;
  Known& known = known_[slot.Index()];
  known.may_miss = false;  // count it once, even if it is placed again
  return known.job->learner.IsMember(known.key);
}

std::uint64_t JobLearning::DigestOfPhases() const {
  std::uint64_t digest = identity_changes_;
  for (const auto& job : jobs_) digest = Mix64(digest ^ job->learner.DigestOfPhases() ^ job->name);
  return digest;
}

std::vector<JobLearning::JobPhases> JobLearning::Phases() const {
  std::unordered_map<const LearnedJob*, std::unordered_map<MemberKey, FlowSlot>> open;
  for (const auto& job : jobs_) {
    if (job->learner.ArePhasesLearned()) open[job.get()].reserve(job->open_flows);
  }
  for (std::uint32_t i = 0; i < known_.size(); ++i) {
    const Known& known = known_[i];
    if (known.job == nullptr || !state_.flows.ActivityOf(FlowSlot(i)).ReportsEdges()) continue;
    const auto slots = open.find(known.job);
    if (slots != open.end()) slots->second.emplace(known.key, FlowSlot(i));
  }
  std::vector<JobPhases> all;
  for (const auto& job : jobs_) {
    const auto slots = open.find(job.get());
    if (slots == open.end()) continue;
    JobPhases& phases = all.emplace_back(JobPhases{.job = job->name, .phases = {}});
    for (const LearnedPhase& phase : job->learner.Phases()) {
      Phase& known = phases.phases.emplace_back(Phase{.flows = {}, .duration = phase.duration});
      for (const MemberKey key : phase.members) {
        const auto slot = slots->second.find(key);
        if (slot != slots->second.end()) known.flows.push_back(slot->second);
      }
    }
  }
  return all;
}

}  // namespace espalier::controller
