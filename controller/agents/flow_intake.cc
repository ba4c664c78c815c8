#include "controller/agents/flow_intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>
#include <variant>

#include "controller/placement/balance/rate_planner.h"

namespace espalier::controller {
namespace {

// A transport that waits longer than this after a loss outlasts every move off a dead path.
constexpr Duration kLongTimeout = std::chrono::seconds(1);
constexpr Duration kWarningInterval = std::chrono::minutes(10);  // of an agent

// The ports that an earlier controller or the agent chose for the flow's paths, in order.
std::vector<std::uint16_t> SteeredPorts(const wire::OpenedFlow& opened) {
  if (!opened.path_ports.empty()) return opened.path_ports;
  if (opened.steered) return {opened.source_port};
  return {};
}

}  // namespace

FlowIntake::FlowIntake(State& state, Placement& placement, Bursts& bursts,
                       StartPredictor& predictor, BurstWatch& watch,
                       const ControllerOptions& options, EventLoop& loop,
                       std::function<void()> request_turn)
    : state_(state),
      placement_(placement),
      bursts_(bursts),
      predictor_(predictor),
      watch_(watch),
      rounds_(state),
      unnamed_jobs_(state, [this](FlowSlot slot, std::uint32_t job) { SetJob(slot, job); }),
      options_(options),
      loop_(loop),
      request_turn_(std::move(request_turn)) {}

bool FlowIntake::Handle(AgentId id, const wire::FlowReport& report) {
  std::uint64_t& last = state_.agents.At(id).report_sequence;
  if (!report.full && report.sequence > last + 1) return false;
  last = report.full ? report.sequence : std::max(last, report.sequence);
  const TimePoint now = loop_.Now();
  const Duration late = LatenessOf(id, report, now);
  if (report.full) CloseMissing(id, report);
  const auto close_ended = [&] {
    for (const wire::LocalFlowId local : report.ended) {
      if (const auto slot = state_.flows.Find(id, local)) Close(*slot);
    }
  };
  close_ended();  // first: an opened flow may follow one of the same pair
  const std::vector<FlowSlot> opened = Open(id, report, now - late);
  predictor_.HandleOpened(opened);
  Agent& agent = state_.agents.At(id);
  // Flows that are open when an agent connects have not just started.
  const FlowTable::Taken taken = state_.flows.TakeProgress(id, report.progress, now, late);
  WarnOfEdges(agent, taken.implausible);
  const bool changes_need_turn = HandleChanges(taken.changes, agent.reported, now);
  for (const FlowSlot slot : opened) {
    if (agent.reported && !FollowsBursts(slot)) predictor_.HandleBusy(slot, now);
  }
  bursts_.HandleOpened(opened);
  predictor_.HandleProgress(taken.due, now);
  close_ended();  // flows that this message both opened and ended
  const bool is_first = report.full && !agent.reported;
  agent.reported = agent.reported || is_first;
  if (is_first || changes_need_turn || !report.opened.empty() || !report.ended.empty()) {
    request_turn_();
  }
  return true;
}

Duration FlowIntake::LatenessOf(AgentId id, const wire::FlowReport& report, TimePoint now) {
  if (clocks_.size() <= id.Index()) clocks_.resize(id.Index() + 1);
  ReportClock& clock = clocks_[id.Index()];
  if (report.full) clock.Reset();
  return clock.LatenessOf(report.sent_us, now);
}

bool FlowIntake::MayNameJob(AgentId id, const std::string& job) const {
  if (job.empty() || job.front() == UnnamedJobs::kPrefix) return false;
  const auto started = state_.intents.jobs.find(job);
  if (started == state_.intents.jobs.end()) return true;
  const auto* const of_job = std::get_if<StartedJob>(&started->second.value);
  if (of_job == nullptr) return true;
  const std::string& host = state_.agents.At(id).name;
  return std::ranges::any_of(of_job->spec.ranks, [&](const std::string& rank) {
    const auto node = state_.topology.FindNode(rank);
    return node && fabric::HostOf(state_.topology.node(*node)) == host;
  });
}

std::vector<FlowSlot> FlowIntake::Open(AgentId id, const wire::FlowReport& report, TimePoint sent) {
  std::vector<FlowSlot> slots;
  std::map<std::string_view, bool> may_name;  // by job, as a report may repeat a name without end
  const Agent& agent = state_.agents.At(id);
  std::size_t refused = 0;
  for (const wire::OpenedFlow& opened : report.opened) {
    if (state_.flows.Find(id, opened.id)) continue;  // a full report repeats known flows
    if (state_.CountFlowsOf(id) >= options_.max_flows_per_agent) {
      ++refused;
      continue;
    }
    Flow flow;
    flow.agent = id;
    flow.local = opened.id;
    const std::string& job = report.jobs[opened.job];
    const auto [known, is_first] = may_name.try_emplace(job);
    if (is_first) known->second = MayNameJob(id, job);
    flow.has_job_name = known->second;
    flow.job = state_.flows.JobIndex(flow.has_job_name ? job : "", id);
    flow.source_address = report.addresses[opened.source];
    flow.destination_address = report.addresses[opened.destination];
    flow.own_port = opened.source_port;
    flow.local_qpn = opened.local_qpn;
    flow.remote_qpn = opened.remote_qpn;
    flow.protocol = opened.protocol;
    flow.key.destination_port = opened.destination_port;
    flow.max_paths = opened.max_paths;
    flow.movable = opened.movable;
    flow.keeps_rate = opened.keeps_rate;
    flow.keeps_weights = opened.keeps_weights;
    flow.path_fixed = opened.path_fixed;
    flow.timeout_us = opened.timeout_us;
    flow.repetitions = opened.repetitions;
    flow.reported = loop_.Now();
    flow.started = sent - std::chrono::microseconds(opened.age_us);
    slots.push_back(state_.flows.Open(std::move(flow)));
    placement_.Admit(slots.back(), SteeredPorts(opened));
    rounds_.HandleOpened(slots.back());
    if (!state_.flows.At(slots.back()).has_job_name) unnamed_jobs_.HandleOpened();
    WarnOfTimeout(state_.flows.At(slots.back()));
  }
  const Admission::Refused beyond = placement_.TakeRefused();
  if (beyond.flows > 0) {
    state_.history.RecordOf(
        agent.name, loop_.Now(), "pair_full",
        fmt::format(
            "agent={} flows={} source={} destination={} limit={} remedy=\"these flows stay on "
            "ECMP: open fewer connections between two NICs\"",
            agent.name, beyond.flows, state_.topology.node(beyond.key.source).id,
            state_.topology.node(beyond.key.destination).id, Admission::kMostFlowsOfPair));
  }
  if (refused > 0) {
    state_.history.RecordOf(agent.name, loop_.Now(), "flows_refused",
                            fmt::format("agent={} flows={} limit={}", agent.name, refused,
                                        options_.max_flows_per_agent));
  }
  return slots;
}

void FlowIntake::WarnOfTimeout(const Flow& flow) {
  const Duration timeout = std::chrono::microseconds(flow.timeout_us);
  if (timeout <= kLongTimeout) return;
  Agent& agent = state_.agents.At(flow.agent);
  const TimePoint now = loop_.Now();
  if (agent.warned_of_timeout && now - *agent.warned_of_timeout < kWarningInterval) return;
  agent.warned_of_timeout = now;
  state_.history.RecordOf(
      agent.name, now, "transport_waits_long",
      fmt::format("flow={} job={} timeout_seconds={:.1f} repetitions={} remedy=\"after a loss the "
                  "flow stands still for so long, whatever path it has: choose a shorter timeout "
                  "(NCCL_IB_TIMEOUT for NCCL)\"",
                  state_.FlowName(flow), state_.flows.JobName(flow.job), SecondsOf(timeout),
                  flow.repetitions));
}

bool FlowIntake::FollowsBursts(FlowSlot slot) const {
  return options_.activity == Activity::kBursts && state_.flows.ActivityOf(slot).ReportsEdges();
}

void FlowIntake::WarnOfEdges(const Agent& agent, std::size_t flows) {
  if (flows == 0) return;
  state_.history.RecordOf(
      agent.name, loop_.Now(), "edges_implausible",
      fmt::format("agent={} flows={} edges_per_second={}", agent.name, flows, EdgeBudget::kOfFlow));
}

bool FlowIntake::HandleChanges(std::span<const MessageChange> changes, bool learns, TimePoint now) {
  bursts_.HandleProgress(changes);  // first: it decides which flows only acknowledge
  rounds_.HandleChanges(changes);
  watch_.HandleChanges(changes);
  if (learns) unnamed_jobs_.HandleChanges(changes);
  const std::span<const MessageChange> edges = FindEdges(changes);
  predictor_.HandleEdges(edges, learns, now);
  const bool needs_decision = bursts_.HandleEdges(edges);
  if (learns) predictor_.HandleUnready(bursts_.unready());
  const bool changes_rates =
      HasRateLimits(state_, options_) && std::ranges::any_of(changes, [](const auto& change) {
        return change.is_busy != change.was_busy;
      });
  return needs_decision || changes_rates;
}

std::span<const MessageChange> FlowIntake::FindEdges(std::span<const MessageChange> changes) {
  edges_.clear();
  for (const MessageChange& change : changes) {
    if (change.is_busy == change.was_busy || state_.flows.At(change.slot).is_answering) continue;
    if (FollowsBursts(change.slot)) edges_.push_back(change);
  }
  return edges_;
}

void FlowIntake::Close(FlowSlot slot) {
  predictor_.HandleClosed(slot, loop_.Now());
  rounds_.HandleClosed(slot, loop_.Now());
  watch_.Leave(slot, loop_.Now());
  bursts_.Forget(slot);
  RecordEnd(slot);
  if (!state_.flows.At(slot).has_job_name) unnamed_jobs_.HandleClosed(slot);
  placement_.Release(slot);
  state_.flows.Close(slot);
  ForgetJobs();
}

void FlowIntake::RecordEnd(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  state_.ended_flows.Record(
      {.started = flow.started,
       .ended = loop_.Now(),
       .agent = flow.agent,
       .local = flow.local,
       .job = state_.flows.JobName(flow.job),
       .source = flow.source_address,
       .destination = flow.destination_address,
       .status = flow.status,
       .reason = flow.reason,
       .via = state_.HasPaths(flow) ? state_.Via(flow) : "",
       .port = flow.subflows.empty() ? std::uint16_t{0} : flow.subflows.front().port,
       .announced_bytes = state_.flows.ActivityOf(slot).announced_bytes});
}

void FlowIntake::SetJob(FlowSlot slot, std::uint32_t job) {
  const std::vector<FlowSlot> renamed{slot};
  predictor_.HandleClosed(slot, loop_.Now());
  watch_.Leave(slot, loop_.Now());
  rounds_.SetJob(slot, job, loop_.Now());
  watch_.Join(slot, loop_.Now());
  predictor_.HandleOpened(renamed);
  ForgetJobs();
}

void FlowIntake::ForgetJobs() {
  for (const std::uint32_t job : state_.flows.TakeForgottenJobs()) {
    state_.rounds.Forget(job);
    watch_.ForgetJob(job);
    predictor_.ForgetJob(job);
  }
}

void FlowIntake::CloseAll(AgentId id) {
  for (const FlowSlot slot : state_.flows.OfAgent(id)) Close(slot);
}

void FlowIntake::CloseMissing(AgentId id, const wire::FlowReport& report) {
  std::unordered_set<wire::LocalFlowId> present;
  for (const wire::OpenedFlow& opened : report.opened) present.insert(opened.id);
  for (const FlowSlot slot : state_.flows.OfAgent(id)) {
    if (!present.contains(state_.flows.At(slot).local)) Close(slot);
  }
}

void FlowIntake::Tick() {
  const TimePoint now = loop_.Now();
  unnamed_jobs_.Update(now);
  for (std::size_t i = 0; i < state_.agents.size(); ++i) {
    const AgentId id(static_cast<std::int32_t>(i));
    const Agent& agent = state_.agents.At(id);
    if (!agent.peer && now - agent.last_heard > options_.lease &&
        state_.flows.CountOfAgent(id) > 0) {
      const auto slots = state_.flows.OfAgent(id);
      for (const FlowSlot slot : slots) Close(slot);
      state_.history.RecordOf(agent.name, now, "agent_flows_dropped",
                              fmt::format("agent={} flows={}", agent.name, slots.size()));
    }
    if (agent.peer && agent.reported && state_.pushes.NeedsFull(id) && now >= agent.hold_until) {
      placement_.EndAdoption(id);
    }
  }
}

}  // namespace espalier::controller
