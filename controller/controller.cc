#include "controller/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace espalier::controller {
namespace {

// Every start of a controller takes one epoch, and a store that was restored from a backup may be
// behind its agents by as many as there were starts since. An agent that could name any epoch might
// take them all. Plans' versions have room for epochs of up to 2^39 (forests/tree_plans.cc).
constexpr std::uint64_t kMostEpochsAhead = 1 << 20;
constexpr std::uint64_t kHighestEpochClaimed = std::uint64_t{1} << 38U;
constexpr Duration kTickInterval = std::chrono::milliseconds(100);
// A turn that begins later than this after it was asked for: the loop has too much to do.
constexpr Duration kLate = std::chrono::milliseconds(50);
// Between two plans made ahead: at least this (what comes in a burst is one change), and so many
// times what the last one took. Failures come seldom, flows often: their plans may be behind.
constexpr Duration kForesightPause = std::chrono::microseconds(50);
constexpr int kPausesAPlan = 4;
constexpr Duration kFailurePlanPause = std::chrono::milliseconds(2);
constexpr int kPausesAFailurePlan = 19;  // 5 % of the processor
// After a change of links: flows whose ports are looked at in one go, and the time between.
constexpr std::size_t kFlowsVerifiedAtOnce = 64;
constexpr Duration kVerifyPause = std::chrono::milliseconds(2);

std::uint64_t RandomInstance() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

std::vector<fabric::LinkState> InitialStates(const fabric::Topology& topology) {
  std::vector<fabric::LinkState> states;
  for (const fabric::Link& link : topology.links()) states.push_back(link.state);
  return states;
}

// Links between the same two roles are of one tier.
std::vector<std::uint32_t> TiersOf(const fabric::Topology& topology) {
  std::vector<std::uint32_t> tiers;
  for (const fabric::Link& link : topology.links()) {
    const auto a = static_cast<std::uint32_t>(topology.node(link.a).role);
    const auto b = static_cast<std::uint32_t>(topology.node(link.b).role);
    tiers.push_back(std::min(a, b) << 8U | std::max(a, b));
  }
  return tiers;
}

std::unordered_set<std::string> HostsOf(const fabric::Topology& topology) {
  std::unordered_set<std::string> hosts;
  for (const fabric::Node& node : topology.nodes()) {
    hosts.insert(node.host.empty() ? node.id : node.host);
  }
  return hosts;
}

}  // namespace

Controller::Controller(fabric::Topology topology, ControllerOptions options, EventLoop& loop,
                       Bus& bus, Store& store, Metrics& metrics)
    : configured_(options),
      options_(std::move(options)),
      loop_(loop),
      bus_(bus),
      store_(store),
      state_(std::move(topology)),
      initial_states_(InitialStates(state_.topology)),
      learner_(state_.topology, state_.paths, state_.path_map, options_.learner, metrics),
      foresight_(state_, learner_, options_, metrics),
      failure_plans_(state_, learner_, metrics),
      link_monitor_(options_.detection, TiersOf(state_.topology)),
      suspect_probes_(state_, [this](fabric::NodeId nic) { return ProbeAgent(nic); }),
      revival_probes_(state_, [this](fabric::NodeId nic) { return ProbeAgent(nic); }),
      placement_(state_, learner_, options_),
      rate_planner_(state_),
      publisher_(
          state_, options_,
          [this](AgentId id, wire::Body body) { return Send(id, std::move(body)); }, metrics),
      jobs_(
          state_, learner_, failure_plans_, options_, loop, [this] { RequestTurn(); }, metrics),
      instance_(options_.instance != 0 ? options_.instance : RandomInstance()),
      hosts_(HostsOf(state_.topology)),
      messages_(metrics.MakeCounter("espalier_controller_messages_total",
                                    "Messages received from agents")),
      bad_messages_(metrics.MakeCounter("espalier_controller_bad_messages_total",
                                        "Messages refused as malformed or out of place")),
      peers_refused_(metrics.MakeCounter("espalier_controller_peers_refused_total",
                                         "Connections that were not let in or were ended")),
      agents_over_limit_(
          metrics.MakeCounter("espalier_controller_agents_over_limit_total",
                              "Times that an agent sent more than max_entries_per_second, and was "
                              "disconnected or not let in")),
      verdicts_ignored_(
          metrics.MakeCounter("espalier_controller_verdicts_ignored_total",
                              "Verdicts of hosts on their flows' paths that came too soon after "
                              "the last")),
      events_dropped_(metrics.MakeGauge(
          "espalier_controller_events_dropped",
          "Events since the start that were not kept, as their source caused too many")),
      decode_seconds_(metrics.MakeLatency("espalier_controller_decode_seconds",
                                          "From a message's arrival until it was decoded")),
      turn_wait_seconds_(metrics.MakeLatency("espalier_controller_turn_wait_seconds",
                                             "From the report that asked for a turn to the turn")),
      turn_seconds_(
          metrics.MakeLatency("espalier_controller_turn_seconds",
                              "Duration of one turn: assignment, probe orders, ports, pushes")),
      assignments_(metrics.MakeCounter("espalier_controller_assignments_total",
                                       "Times that new flows were assigned paths")),
      flows_placed_(metrics.MakeCounter("espalier_controller_flows_placed_total",
                                        "Flows that were assigned a path when new")),
      assignment_seconds_(metrics.MakeLatency("espalier_controller_assignment_seconds",
                                              "Duration of one assignment of new flows")),
      flows_moved_(metrics.MakeCounter("espalier_controller_flows_moved_total",
                                       "Live flows that moved to make room for new ones")),
      late_turns_(metrics.MakeCounter(
          "espalier_controller_late_turns_total",
          "Turns that began late: starts then move no live flow, and no plans are made")),
      plan_seconds_(metrics.MakeLatency("espalier_foresight_plan_seconds",
                                        "Duration of making one plan ahead")),
      failure_hits_(metrics.MakeCounter("espalier_failure_plan_hits_total",
                                        "Flows that left a failed link or switch by a plan")),
      failure_misses_(
          metrics.MakeCounter("espalier_failure_plan_misses_total",
                              "Flows that left a failed or drained link or switch without a plan")),
      failure_seconds_(metrics.MakeLatency(
          "espalier_failure_decision_seconds",
          "From the news of a failure until the planned paths were handed to the bus")),
      links_detected_down_(metrics.MakeCounter(
          "espalier_controller_links_detected_down_total",
          "Links taken out of use as hosts or a telemetry feed found them down")),
      detection_budget_exceeded_(metrics.MakeCounter(
          "espalier_controller_detection_budget_exceeded_total",
          "Times that hosts or feeds called more links dead than the budget of detection allows")),
      links_waiting_(metrics.MakeGauge(
          "espalier_controller_links_awaiting_operator",
          "Links that are said to be dead and stay in use until the operator fails them, as the "
          "budget of detection is spent")),
      recomputations_(metrics.MakeCounter("espalier_controller_recomputations_total",
                                          "Assignments of all flows on the operator's word")),
      recompute_seconds_(metrics.MakeLatency("espalier_controller_recompute_seconds",
                                             "Duration of an assignment of all flows")),
      commit_seconds_(metrics.MakeLatency("espalier_controller_commit_seconds",
                                          "Until an operator's action was durable")),
      action_seconds_(metrics.MakeLatency(
          "espalier_controller_action_seconds",
          "From an operator's action until it was durable and what it moves was pushed")),
      flows_open_(metrics.MakeGauge("espalier_controller_flows_open", "Elephant flows open now")),
      flows_unroutable_(metrics.MakeGauge("espalier_controller_flows_unroutable",
                                          "Open flows without a usable path or a known end")),
      max_link_load_(metrics.MakeGauge("espalier_controller_max_link_load",
                                       "Flows a unit link, on the most loaded one")),
      max_link_load_bound_(metrics.MakeGauge("espalier_controller_max_link_load_bound",
                                             "The least that any assignment could have")),
      agents_connected_(
          metrics.MakeGauge("espalier_controller_agents_connected", "Agents connected now")),
      topology_version_(metrics.MakeGauge("espalier_controller_topology_version",
                                          "Grows with every change of a link's state")) {}

Controller::~Controller() { StoreEvents(); }

Result<void> Controller::Start() {
  Result<StoredState> stored = store_.Begin();
  if (!stored) return Propagate(stored);
  state_.epoch = stored->epoch;
  highest_believable_epoch_ = std::min(stored->epoch + kMostEpochsAhead, kHighestEpochClaimed);
  state_.revision = stored->revision;
  state_.job_secret = stored->job_secret;
  state_.intents = std::move(stored->intents);
  RestoreHistory(stored->events);
  ApplyPolicies();
  RememberReports(stored->reported_down);
  const auto changed = ApplyIntents();
  state_.history.Record(
      loop_.Now(), "controller_started",
      fmt::format("epoch={} revision={} links_not_up={} topology={}", state_.epoch, state_.revision,
                  changed.size(), state_.topology.name()));
  if (stored->change_to_come) {
    state_.history.Record(
        loop_.Now(), "clock_behind_store",
        fmt::format("latest_change={} clock={} remedy=\"the clock was ahead then "
                    "or is behind now: look at it\"",
                    FormatWallTime(*stored->change_to_come), FormatWallTime(WallNow())));
  }
  if (!stored->topology.name.empty() && stored->topology.name != state_.topology.name()) {
    state_.history.Record(
        loop_.Now(), "topology_is_another",
        fmt::format("intents_of={} topology={}", stored->topology.name, state_.topology.name()));
  }
  bus_.SetHandlers(
      {.on_message = [this](PeerId peer, std::string_view bytes) { HandleMessage(peer, bytes); },
       .on_peer_gone =
           [this](PeerId peer) {
             if (const auto id = state_.agents.FindByPeer(peer)) {
               state_.agents.Disconnect(*id);
             }
           }});
  jobs_.Apply(state_.intents.jobs);
  last_verify_ = loop_.Now();
  tick_ = loop_.After(kTickInterval, [this] { Tick(); });
  return {};
}

void Controller::RequestTurn() {
  if (std::exchange(turn_pending_, true)) return;
  turn_requested_ = loop_.Now();
  loop_.Post([this] { Turn(); });
}

void Controller::PlaceNew() {
  if (state_.unplaced.empty()) return;
  const TimePoint start = loop_.Now();
  const Placement::Placed placed =
      placement_.PlaceNew(foresight_, is_late_ ? 0 : options_.moves_per_start);
  if (placed.flows == 0) return;
  assignments_.Add();
  flows_placed_.Add(static_cast<std::int64_t>(placed.flows));
  flows_moved_.Add(static_cast<std::int64_t>(placed.moved));
  assignment_seconds_.ObserveSeconds(std::chrono::duration<double>(loop_.Now() - start).count());
}

void Controller::MakeRoomForRedrawn() {
  if (is_late_) return;
  const std::size_t moved = placement_.MakeRoomForRedrawn(loop_.Now(), options_.moves_per_start);
  if (moved == 0) return;
  flows_moved_.Add(static_cast<std::int64_t>(moved));
  state_.history.RecordOf("controller", loop_.Now(), "made_room",
                          fmt::format("for=redrawn moved={}", moved));
}

void Controller::RequestForesight() {
  if (foresight_timer_ || is_late_ || !options_.plan_ahead) return;
  foresight_timer_ = loop_.After(std::max(foresight_pause_, kForesightPause), [this] {
    foresight_timer_.reset();
    Foresee();
  });
}

void Controller::Foresee() {
  if (tell_timer_) return;  // agents are awaited: TellDone asks again
  const TimePoint start = loop_.Now();
  const bool has_planned = foresight_.PlanNext(start);
  const Duration spent = loop_.Now() - start;
  foresight_pause_ = kPausesAPlan * spent;
  if (!has_planned) {
    RequestFailurePlans();
    return RequestTurn();  // it may have asked for ports
  }
  plan_seconds_.ObserveSeconds(std::chrono::duration<double>(spent).count());
  RequestForesight();
}

Result<std::size_t> Controller::DeclareStarts(const Foresight::Schedule& schedule) {
  auto taken = foresight_.Declare(schedule, loop_.Now());
  if (!taken) return taken;
  state_.history.Record(
      loop_.Now(), "starts_declared",
      fmt::format("job={} flows={} taken={}", schedule.job, schedule.flows.size(), *taken));
  RequestForesight();
  return taken;
}

void Controller::RequestFailurePlans() {
  if (failure_timer_ || is_late_ || !options_.plan_ahead) return;
  failure_timer_ = loop_.After(std::max(failure_pause_, kFailurePlanPause), [this] {
    failure_timer_.reset();
    RefreshFailurePlans();
  });
}

void Controller::RefreshFailurePlans() {
  if (tell_timer_) return;  // as Foresee
  const TimePoint start = loop_.Now();
  const bool has_planned = failure_plans_.RefreshNext();
  failure_pause_ = kPausesAFailurePlan * (loop_.Now() - start);
  if (!has_planned) return RequestTurn();  // it may have asked for ports
  RequestFailurePlans();
}

void Controller::RequestVerification() {
  links_changed_ = loop_.Now();
  verify_left_ = state_.flows.slot_count();
  if (!verify_timer_) verify_timer_ = loop_.After(kVerifyPause, [this] { VerifySomeFlows(); });
}

void Controller::VerifySomeFlows() {
  verify_timer_.reset();
  const std::size_t slots = state_.flows.slot_count();
  const bool has_patience = loop_.Now() - links_changed_ < kAcknowledgementPatience;
  if (!has_patience || !publisher_.AwaitsAcknowledgements()) {
    for (std::size_t i = 0; i < kFlowsVerifiedAtOnce && verify_left_ > 0; ++i, --verify_left_) {
      const FlowSlot slot(static_cast<std::uint32_t>(verify_next_++ % slots));
      if (state_.flows.IsOpen(slot)) placement_.VerifyPorts(slot);
    }
    RequestTurn();
  }
  if (verify_left_ == 0) return;
  verify_timer_ = loop_.After(kVerifyPause, [this] { VerifySomeFlows(); });
}

void Controller::Turn() {
  const TimePoint turn = loop_.Now();
  const bool was_late = is_late_;
  is_late_ = turn_pending_ && turn - turn_requested_ > kLate;
  if (std::exchange(turn_pending_, false)) {
    turn_wait_seconds_.ObserveSeconds(SecondsSince(turn_requested_));
  }
  if (is_late_) late_turns_.Add();
  if (is_late_ != was_late) {
    state_.history.RecordOf("controller", loop_.Now(),
                            is_late_ ? "controller_late" : "controller_in_time", "");
  }
  PlaceNew();
  const auto can_probe = [this](fabric::NodeId nic) { return ProbeAgent(nic).has_value(); };
  for (PathLearner::Order& order : learner_.TakeOrders(loop_.Now(), can_probe)) {
    Send(*ProbeAgent(order.source), std::move(order.order));
  }
  publisher_.PushChanges(loop_.Now());
  flows_open_.Set(static_cast<double>(state_.flows.size()));
  if (std::exchange(foreseen_changes_, state_.path_changes) != state_.path_changes) {
    RequestForesight();
  }
  turn_seconds_.ObserveSeconds(SecondsSince(turn));
}

const std::string& Controller::HostOf(fabric::NodeId nic) const {
  const fabric::Node& node = state_.topology.node(nic);
  return node.host.empty() ? node.id : node.host;
}

std::optional<AgentId> Controller::ProbeAgent(fabric::NodeId nic) const {
  const auto id = state_.agents.FindByName(HostOf(nic));
  if (!id || !state_.agents.At(*id).peer) return std::nullopt;
  return id;
}

void Controller::Tick() {
  tick_ = loop_.After(kTickInterval, [this] { Tick(); });
  const TimePoint now = loop_.Now();
  DropSilentAgents();
  TakeFindings(learner_.ExpireOrders(now));
  if (options_.limit_rates) rate_planner_.Update();
  publisher_.ResendUnacknowledged(now);
  jobs_.ReleasePorts(now);
  jobs_.PlanAhead();
  EndExpiredIntents();
  RecordRefusals();
  state_.history.TellDropped(now);
  StoreEvents();
  learner_.ForgetUnused([this](const fabric::PortKey& key) { return state_.by_key.contains(key); });
  foresight_.PassTime(now);
  SendQuestions(suspect_probes_.AskAgain(now));
  SendQuestions(revival_probes_.Ask(link_monitor_.Remembered(), now));
  StoreReports();
  UpdateLinkMonitor();
  MakeRoomForRedrawn();
  RequestForesight();
  if (options_.verify_interval > Duration::zero() &&
      now - last_verify_ >= options_.verify_interval) {
    last_verify_ = now;
    VerifyOnePort();
  }
  SendHeartbeats();
  RequestTurn();
}

void Controller::SendHeartbeats() {
  const auto parts = static_cast<std::size_t>(
      std::max<std::int64_t>(1, options_.heartbeat_interval / kTickInterval));
  const std::size_t part = ticks_++ % parts;
  if (part == 0) ++heartbeats_;
  for (std::size_t i = part; i < state_.agents.size(); i += parts) {
    const AgentId id(static_cast<std::int32_t>(i));
    Send(id, wire::Heartbeat{.sequence = heartbeats_,
                             .epoch = state_.epoch,
                             .generation = state_.agents.At(id).generation,
                             .report_interval_us = ReportIntervalUs()});
  }
}

std::uint64_t Controller::ReportIntervalUs() const {
  constexpr std::uint64_t kUsual = 10'000;  // that agents are configured with
  constexpr std::uint64_t kSecond = 1'000'000;
  if (options_.max_reports_per_second == 0) return 0;
  const std::uint64_t interval = connected_ * kSecond / options_.max_reports_per_second;
  return interval <= kUsual ? 0 : interval;
}

void Controller::DropSilentAgents() {
  const TimePoint now = loop_.Now();
  std::size_t connected = 0;
  for (std::size_t i = 0; i < state_.agents.size(); ++i) {
    const AgentId id(static_cast<std::int32_t>(i));
    Agent& agent = state_.agents.At(id);
    const Duration silence = now - agent.last_heard;
    if (agent.peer && silence > options_.heartbeat_interval * options_.missed_heartbeats) {
      state_.history.RecordOf(agent.name, now, "agent_gone", fmt::format("agent={}", agent.name));
      bus_.Disconnect(*agent.peer);
      state_.agents.Disconnect(id);
    }
    if (!agent.peer && silence > options_.lease && state_.flows.CountOfAgent(id) > 0) {
      auto slots = state_.flows.OfAgent(id);
      std::erase_if(slots, [&](FlowSlot slot) { return state_.flows.At(slot).tree_load != 0; });
      for (const FlowSlot slot : slots) CloseFlow(slot);
      if (!slots.empty()) {
        state_.history.RecordOf(agent.name, now, "agent_flows_dropped",
                                fmt::format("agent={} flows={}", agent.name, slots.size()));
      }
    }
    if (agent.peer && agent.reported && agent.needs_full && now >= agent.hold_until) {
      placement_.EndAdoption(id);
    }
    connected += agent.peer ? 1 : 0;
  }
  connected_ = connected;
  agents_connected_.Set(static_cast<double>(connected));
  topology_version_.Set(static_cast<double>(state_.topology.version()));
}

void Controller::VerifyOnePort() {
  const std::vector<FlowSlot> slots = state_.flows.All();
  for (std::size_t tried = 0; tried < slots.size(); ++tried) {
    const Flow& flow = state_.flows.At(slots[verify_cursor_++ % slots.size()]);
    if (flow.status != FlowStatus::kRouted) continue;
    learner_.Verify(flow.key, flow.ways[verify_cursor_ / slots.size() % flow.ways.size()].port);
    return;
  }
}

void Controller::TakeFindings(const PathLearner::Findings& findings) {
  for (const PathLearner::Mismatch& mismatch : findings.mismatches) {
    state_.history.RecordOf(
        HostOf(mismatch.key.source), loop_.Now(), "path_map_mismatch",
        fmt::format("source={} destination={} port={}",
                    state_.topology.node(mismatch.key.source).id,
                    state_.topology.node(mismatch.key.destination).id, mismatch.port));
  }
  for (const PathLearner::GivenUp& given_up : findings.given_up) {
    state_.history.RecordOf(
        HostOf(given_up.key.source), loop_.Now(), "port_given_up",
        fmt::format("source={} destination={} port={}",
                    state_.topology.node(given_up.key.source).id,
                    state_.topology.node(given_up.key.destination).id, given_up.port));
  }
  for (const fabric::PortKey& key : findings.changed) placement_.Revisit(key);
  if (findings.changed.empty()) return;
  foresight_.HandleFindings();
  RequestForesight();
  jobs_.HandleFindings();
  RequestTurn();
}

void Controller::RefreshMetrics() {
  const std::vector<FlowSlot> slots = state_.flows.All();
  flows_unroutable_.Set(static_cast<double>(std::ranges::count_if(slots, [&](FlowSlot slot) {
    return state_.flows.At(slot).status == FlowStatus::kUnroutable;
  })));
  const LoadSummary loads = Summarize(state_);
  max_link_load_.Set(loads.max_load.Value());
  max_link_load_bound_.Set(loads.lower_bound.Value());
  events_dropped_.Set(static_cast<double>(state_.history.dropped()));
}

bool Controller::Send(AgentId id, wire::Body body) {
  const Agent& agent = state_.agents.At(id);
  if (!agent.peer) return false;
  return bus_.Send(*agent.peer, wire::Encode({instance_, std::move(body)}));
}

void Controller::SendTo(PeerId peer, wire::Body body) {
  bus_.Send(peer, wire::Encode({instance_, std::move(body)}));
}

}  // namespace espalier::controller
