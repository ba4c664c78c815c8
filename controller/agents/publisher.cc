#include "controller/agents/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "proto/limits.h"

namespace espalier::controller {
namespace {

constexpr std::uint32_t kPartOfProgram = 2;  // RankPlan.program_version

// The shares of a flow's subflows as small whole numbers: exactly, or, where these would not fit 16
// bits, rounded to a ten-thousandth of the flow.
class Weights {
 public:
  explicit Weights(const Flow& flow) : flow_(flow) {
    std::int64_t greatest = 1;
    common_ = 0;
    for (const Subflow& subflow : flow.subflows) {
      common_ = std::gcd(common_, ShareOf(flow, subflow));
      greatest = std::max(greatest, ShareOf(flow, subflow));
    }
    is_exact_ = greatest <= common_ * std::numeric_limits<std::uint16_t>::max();
  }
  std::uint32_t Of(const Subflow& subflow) const {
    if (is_exact_) return static_cast<std::uint32_t>(ShareOf(flow_, subflow) / common_);
    return static_cast<std::uint32_t>(std::max(1L, std::lround(1e4 * PartOf(flow_, subflow))));
  }

 private:
  const Flow& flow_;
  std::int64_t common_ = 1;
  bool is_exact_ = true;
};

// The links between the switches of a path, for agents that know these. Empty: the path is unknown.
std::vector<std::uint32_t> LinksOf(const State& state, const Flow& flow, std::int32_t path) {
  std::vector<std::uint32_t> links;
  const auto source = state.view.LeafOf(flow.source_leaf);
  const auto destination = state.view.LeafOf(flow.destination_leaf);
  if (path < 0 || !source || !destination) return links;
  state.view.AppendHops(*source, *destination, path, links);
  if (links.size() > wire::kMaxLinksPerPath) links.clear();
  return links;
}

}  // namespace

Publisher::Publisher(State& state, const ControllerOptions& options, SendFunction send,
                     Metrics& metrics)
    : state_(state),
      options_(options),
      send_(std::move(send)),
      pushes_(metrics.MakeCounter("espalier_controller_pushes_total",
                                  "Path pushes sent to agents, including full pushes")),
      full_pushes_(metrics.MakeCounter("espalier_controller_full_pushes_total",
                                       "Path pushes that carried all flows of an agent")),
      plans_(metrics.MakeCounter("espalier_controller_rank_plans_total",
                                 "Rank plans sent to agents, including repeated ones")),
      ack_latency_(metrics.MakeLatency("espalier_controller_push_to_ack_seconds",
                                       "Time from a path push until its acknowledgement")),
      steer_latency_(metrics.MakeLatency(
          "espalier_controller_report_to_push_seconds",
          "Time from a flow's first report until its ports were pushed, including path learning")) {
}

void Publisher::PushChanges(TimePoint now) {
  std::set<AgentId> held;
  for (const AgentId id : std::exchange(state_.pushes.agents(), {})) {
    const Agent& agent = state_.agents.At(id);
    if (!agent.peer) continue;  // its next session begins with a full push
    if (MayPush(id, now)) {
      Push(id, now);
    } else {
      held.insert(id);
    }
  }
  state_.pushes.agents().merge(held);
}

void Publisher::PushChangesOf(AgentId id, TimePoint now) {
  const auto queued = state_.pushes.agents().find(id);
  if (queued == state_.pushes.agents().end() || !state_.agents.At(id).peer || !MayPush(id, now)) {
    return;
  }
  state_.pushes.agents().erase(queued);  // before Push, which queues a dropped push again
  Push(id, now);
}

bool Publisher::AwaitsAcknowledgements() {
  for (std::size_t& i = first_awaited_; i < state_.agents.size(); ++i) {
    const Agent& agent = state_.agents.At(AgentId(static_cast<std::int32_t>(i)));
    if (agent.peer && agent.acked_generation < agent.generation) return true;
  }
  return false;
}

bool Publisher::MayPush(AgentId id, TimePoint now) const {
  return state_.agents.At(id).reported && !IsHeld(id, now);
}

bool Publisher::IsHeld(AgentId id, TimePoint now) const {
  if (state_.pushes.NeedsFull(id) && now < state_.agents.At(id).next_full_push) return true;
  // Placement::EndAdoption ends this state when the time for adoption is up. A full push before
  // that would leave out a flow in adoption, and the flow would lose its port.
  if (!state_.pushes.NeedsFull(id)) return false;
  const std::vector<FlowSlot> slots = state_.flows.OfAgent(id);
  return std::any_of(slots.begin(), slots.end(), [&](FlowSlot slot) {
    return state_.flows.At(slot).status == FlowStatus::kAdopting;
  });
}

void Publisher::Push(AgentId id, TimePoint now) {
  Agent& agent = state_.agents.At(id);
  PushQueue::Changes& changes = state_.pushes.Of(id);
  wire::PathPush push = Compose(id, changes, now);
  changes.flows.clear();
  // An agent that holds no paths needs no empty first push.
  const bool has_plans = agent.Has("collective") && !changes.plans.empty();
  if (push.sets.empty() && push.withdrawn.empty() && !push.full && !has_plans) return;
  push.epoch = state_.epoch;
  push.generation = ++agent.generation;
  first_awaited_ = std::min(first_awaited_, id.Index());
  push.plans = SendPlans(id, push.full, changes.plans);
  for (const wire::PathSet& set : push.sets) {
    state_.flows.PushOf(*state_.flows.Find(id, set.flow)).generation = agent.generation;
  }
  pushes_.Add();
  if (push.full) full_pushes_.Add();
  changes.needs_full = false;
  agent.last_push = now;
  // A dropped push is never acknowledged, so a full one follows.
  if (!send_(id, std::move(push))) state_.pushes.MarkAll(id);
}

std::uint32_t Publisher::SendPlans(AgentId id, bool full, std::set<RankOfJob>& changed) {
  Agent& agent = state_.agents.At(id);
  if (!agent.Has("collective")) return 0;
  std::uint32_t sent = 0;
  const auto send = [&](wire::RankPlan plan) {
    plan.epoch = state_.epoch;
    plan.generation = agent.generation;
    // The push counts the plans, so the agent notices one that was dropped.
    static_cast<void>(send_(id, std::move(plan)));
    ++sent;
  };
  for (auto& [rank, held] : agent.plans) {
    if (!full && !changed.contains(rank)) continue;
    // An agent that does not know users of jobs would give the plan to any program, one that does
    // not know NICs of connections would not let the rank listen at its second one, and programs
    // beside one of an older release do not know parts of programs.
    const bool is_withheld =
        (!held.plan->user.empty() && !agent.Has("job_user")) ||
        (!held.plan->listen_addresses.empty() && !agent.Has("rank_nics")) ||
        (held.plan->program_version == kPartOfProgram && !agent.Has("rank_programs"));
    held.generation = is_withheld ? 0 : agent.generation;
    if (!is_withheld) send(*held.plan);
  }
  for (const RankOfJob& rank : std::exchange(changed, {})) {
    if (full || agent.plans.contains(rank)) continue;
    wire::RankPlan ended;
    ended.job = rank.first;
    ended.rank = rank.second;
    send(std::move(ended));
  }
  plans_.Add(sent);
  return sent;
}

wire::PathPush Publisher::Compose(AgentId id, const PushQueue::Changes& changes, TimePoint now) {
  wire::PathPush push;
  push.full = changes.needs_full;
  if (push.full) {
    for (const FlowSlot slot : state_.flows.OfAgent(id)) {
      Describe(id, state_.flows.At(slot).local, now, push);
    }
    return push;
  }
  push.sets.reserve(changes.flows.size());
  for (const wire::LocalFlowId local : changes.flows) Describe(id, local, now, push);
  return push;
}

void Publisher::Describe(AgentId id, wire::LocalFlowId local, TimePoint now, wire::PathPush& push) {
  const auto slot = state_.flows.Find(id, local);
  if (!slot) return;  // it has ended, as the agent knows
  const Flow& flow = state_.flows.At(*slot);
  PushState& pushed = state_.flows.PushOf(*slot);
  const bool was_given = pushed.generation != 0;
  const bool is_news = std::exchange(pushed.is_dirty, false) || !was_given;
  const bool has_new_standbys = std::exchange(pushed.has_new_standbys, false);
  if (flow.status == FlowStatus::kAdopting) return;
  if (flow.status == FlowStatus::kUnsteered) {
    push.withdrawn.push_back(local);
    push.unsteered.push_back(local);
    pushed.generation = 0;
    return;
  }
  const Agent& agent = state_.agents.At(id);
  wire::PathSet set{.flow = local, .max_rate_bps = flow.max_rate_bps, .reason = flow.reason};
  const Weights weights(flow);
  for (const Subflow& subflow : flow.subflows) {
    if (subflow.port == 0) continue;
    set.paths.push_back({.source_port = subflow.port,
                         .weight = weights.Of(subflow),
                         .path_id = static_cast<std::uint32_t>(subflow.port_path.value()),
                         .encoding = {}});
    if (is_news) Record(id, flow, subflow, now);
  }
  if (agent.Has("standby")) {
    if (!is_news && has_new_standbys && !push.full) set.reason = wire::PathReason::kStandby;
    AppendStandbys(flow, set);
  }
  if (agent.Has("path_links")) {
    for (wire::FlowPath& path : set.paths) {
      path.links = LinksOf(state_, flow, static_cast<std::int32_t>(path.path_id));
    }
  }
  if (!set.paths.empty()) {
    push.sets.push_back(std::move(set));
    if (!was_given) {
      steer_latency_.ObserveSeconds(SecondsOf(now - flow.reported));
    }
  } else if (was_given) {
    push.withdrawn.push_back(local);
    pushed.generation = 0;
  }
}

void Publisher::AppendStandbys(const Flow& flow, wire::PathSet& set) {
  if (set.paths.empty()) return;
  for (const Subflow& subflow : flow.subflows) {
    if (subflow.standby_port == 0 || set.paths.size() == kMaxSubflows) continue;
    set.paths.push_back({.source_port = subflow.standby_port,
                         .weight = 0,
                         .path_id = static_cast<std::uint32_t>(subflow.standby_path),
                         .encoding = {}});
  }
}

void Publisher::Record(AgentId id, const Flow& flow, const Subflow& subflow, TimePoint now) {
  state_.push_log.Record({.time = now,
                          .agent = id,
                          .flow = flow.local,
                          .job = state_.flows.jobs().Shared(flow.job),
                          .source = flow.key.source,
                          .destination = flow.key.destination,
                          .path = subflow.port_path,
                          .port = subflow.port,
                          .reason = flow.reason});
}

void Publisher::HandleAck(AgentId id, const wire::Ack& ack, TimePoint now) {
  Agent& agent = state_.agents.At(id);
  if (ack.epoch == state_.epoch && ack.generation <= agent.generation) {
    agent.acked_generation = std::max(agent.acked_generation, ack.generation);
    if (ack.generation == agent.generation) {
      ack_latency_.ObserveSeconds(SecondsOf(now - agent.last_push));
    }
  }
  switch (ack.status) {
    case wire::AckStatus::kApplied:
      return;
    case wire::AckStatus::kFailed:
      state_.history.RecordOf(agent.name, now, "push_failed",
                              fmt::format("agent={} flows={} detail=\"{}\"", agent.name,
                                          ack.failed_flows.size(), ack.detail));
      return;
    case wire::AckStatus::kNeedFull:
      if (ack.generation < agent.generation) return;
      if (state_.pushes.NeedsFull(id)) return;  // it is about to get it
      agent.next_full_push = agent.asked_full_push + kFullPushInterval;
      agent.asked_full_push = std::max(now, agent.next_full_push);
      return state_.pushes.MarkAll(id);
    case wire::AckStatus::kStaleEpoch:
      state_.history.RecordOf(
          agent.name, now, "stale_epoch",
          fmt::format("agent={} ours={} its={}", agent.name, state_.epoch, ack.epoch));
      return;
  }
}

void Publisher::ResendUnacknowledged(TimePoint now) {
  for (std::size_t i = 0; i < state_.agents.size(); ++i) {
    const AgentId id(static_cast<std::int32_t>(i));
    const Agent& agent = state_.agents.At(id);
    const bool late =
        agent.acked_generation < agent.generation && now - agent.last_push > options_.resend_after;
    if (agent.peer && late) state_.pushes.MarkAll(id);
  }
}

}  // namespace espalier::controller
