#include "controller/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "controller/discovery/fabric_drift.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kMostLinksRelieved = 16;  // of one change, whose flows are moved at once
// How long one turn chooses ports for arrivals, then for flows whose ports have become known, and
// handles reports on paths; the next turn goes on, after the messages that have come meanwhile.
constexpr Duration kMostOfTurn = std::chrono::microseconds(1'600);

discovery::DiscoveryRun::World MakeDiscoveryWorld(State& state, AgentSessions& sessions,
                                                  const ControllerOptions& options,
                                                  EventLoop& loop) {
  return {.endpoints = [&sessions] { return sessions.ProbingNics(); },
          .send =
              [&state, &sessions](const std::string& host, const wire::ProbeOrder& order) {
                const auto id = state.agents.FindByName(host);
                return id && sessions.Send(*id, order);
              },
          .record_event =
              [&state, &loop](const std::string& kind, const std::string& text) {
                state.history.Record(loop.Now(), kind, text);
              },
          .background =
              [&options, &loop](std::function<void()> work, std::function<void()> done) {
                if (options.background) {
                  return options.background(std::move(work), std::move(done));
                }
                work();
                loop.Post(std::move(done));
              },
          .now = [&loop] { return loop.Now(); },
          .compare =
              [&state](const discovery::Found& found) {
                return discovery::CompareWithTopology(state.topology, found.fabric, found.nics);
              }};
}

PathLearnerOptions LearnerOptions(const ControllerOptions& options) {
  PathLearnerOptions learner = options.learner;
  learner.fabric_hashes_protocol = options.fabric_hashes_protocol;
  return learner;
}

LinkHealth::Options HealthOptions(const ControllerOptions& options) {
  return {.monitor = options.detection,
          .tests = options.link_tests,
          .hashes_protocol = options.fabric_hashes_protocol};
}

}  // namespace

Controller::Controller(fabric::Topology topology, ControllerOptions options, EventLoop& loop,
                       Bus& bus, Store& store, Metrics& metrics)
    : loop_(loop),
      store_(store),
      settings_(std::move(options)),
      state_(std::move(topology)),
      events_(state_.history, store, loop, settings_.now().wall_clock),
      turns_(
          loop, state_.history, [this] { Turn(); }, metrics),
      learner_(state_.topology, state_.paths, state_.path_map, LearnerOptions(settings_.now()),
               metrics),
      sessions_(state_, settings_.now(), loop, bus, store, metrics),
      discovery_(MakeDiscoveryWorld(state_, sessions_, settings_.now(), loop)),
      predictor_(state_, learner_, settings_.now(), metrics),
      failure_plans_(state_, learner_, metrics),
      links_{
          .health = LinkHealth(state_, HealthOptions(settings_.now()), settings_.now().wall_clock,
                               loop, store, learner_, MakeLinkCallbacks(), metrics),
          .states = LinkStates(state_, links_.health),
          .background = BackgroundLoads(
              state_, metrics, [this](std::size_t links) { HandleBackgroundChange(links); }),
          .sightings = Sightings(
              state_, [this](const auto& key, auto port) { VerifyNow(key, port); }, metrics)},
      placement_(state_, learner_, settings_.now(), metrics),
      bursts_(state_, state_.decisions, placement_.ports(), predictor_, settings_.now(), metrics),
      rate_planner_(state_, state_.view, state_.decisions, settings_.now(), loop,
                    [this] { turns_.Request(); }),
      publisher_(
          state_, settings_.now(),
          [this](AgentId id, wire::Body body) { return sessions_.Send(id, std::move(body)); },
          metrics),
      jobs_(
          state_, learner_, failure_plans_, settings_.now(), loop, [this] { turns_.Request(); },
          metrics),
      ledger_(state_, learner_, settings_.now(), store),
      reports_{
          .flows = FlowIntake(state_, placement_, bursts_, predictor_, ledger_.watch(),
                              settings_.now(), loop, std::bind_front(&Turns::Request, &turns_)),
          .paths = PathHealthIntake(state_, placement_, links_.health, loop, metrics),
          .waiting = HealthQueue([this](AgentId id, const wire::PathHealth& health) {
            if (reports_.paths.Handle(id, health)) turns_.Request();
          })},
      verification_{
          .ports = PortVerifier(
              state_, learner_, placement_, settings_.now(), loop,
              {.awaits_acknowledgements = [this] { return publisher_.AwaitsAcknowledgements(); },
               .request_turn = [this] { turns_.Request(); }},
              metrics),
          .spread = SpreadWatch(state_, placement_, loop)},
      effects_({state_, links_.states, learner_, failure_plans_, placement_, publisher_,
                verification_.ports, jobs_},
               settings_.now(), loop, MakeEffectsCallbacks(), metrics),
      operations_{.queue{state_, effects_, settings_.now(), loop, store,
                         [this] { planner_.Request(); }, metrics},
                  .actions{state_, links_.states, settings_, jobs_, operations_.queue, store}},
      planner_(state_, predictor_, failure_plans_, settings_.now(), loop, MakePlannerCallbacks(),
               metrics),
      metrics_(metrics),
      periodic_(loop, MakePeriodicTasks(), metrics) {}

LinkHealth::Callbacks Controller::MakeLinkCallbacks() {
  return {
      .find_prober = [this](fabric::NodeId nic) { return sessions_.FindProber(nic); },
      .send = [this](AgentId id, wire::TrainOrder order) { sessions_.Send(id, std::move(order)); },
      .request_turn = [this] { turns_.Request(); },
      .predict_return =
          [this](const UsedPort& used) { return placement_.returns().PathOf(used.key, used.port); },
      .on_change = [this] { effects_.HandleHealthChange(); }};
}

ActionEffects::Callbacks Controller::MakeEffectsCallbacks() {
  return {.apply_policies = [this] { ApplyPolicies(); },
          .request_turn = [this] { turns_.Request(); },
          .turn = [this] { Turn(); }};
}

BackgroundPlanner::Callbacks Controller::MakePlannerCallbacks() {
  return {.has_time = [this] { return !turns_.is_late(); },
          .is_held = [this] { return operations_.queue.AwaitsAgents(); },
          .request_turn = [this] { turns_.Request(); }};
}

Result<void> Controller::Start() {
  Result<StoredState> stored = store_.Begin();
  if (!stored) return Propagate(stored);
  state_.epoch = stored->epoch;
  state_.revision = stored->revision;
  state_.job_secret = stored->job_secret;
  state_.intents = std::move(stored->intents);
  events_.Restore(stored->events);
  ApplyPolicies();
  links_.health.Restore(stored->reported_down);
  const auto changed = links_.states.Apply();
  RecordEvent("controller_started",
              fmt::format("epoch={} revision={} links_not_up={} topology={}", state_.epoch,
                          state_.revision, changed.size(), state_.topology.name()));
  if (stored->change_to_come) {
    RecordEvent("clock_behind_store",
                fmt::format("latest_change={} clock={} remedy=\"the clock was ahead then "
                            "or is behind now: check it\"",
                            FormatWallTime(*stored->change_to_come), FormatWallTime(WallNow())));
  }
  if (!stored->topology.name.empty() && stored->topology.name != state_.topology.name()) {
    RecordEvent("topology_differs", fmt::format("intents_of={} topology={}", stored->topology.name,
                                                state_.topology.name()));
  }
  if (const std::size_t parts = ledger_.Restore(stored->ledger); parts > 0) {
    RecordEvent("ledger_unreadable", fmt::format("parts={}", parts));
  }
  sessions_.Start(MakeHandlers());
  jobs_.Apply(state_.intents.jobs);
  periodic_.Start();
  return {};
}

AgentSessions::Handlers Controller::MakeHandlers() {
  return {
      .on_flow_report = std::bind_front(&FlowIntake::Handle, &reports_.flows),
      .on_ack = [this](AgentId id, const auto& ack) { HandleAck(id, ack); },
      .on_probe_report = [this](AgentId id, const auto& report) { HandleProbeReport(id, report); },
      .on_train_report =
          [this](AgentId id, const auto& report) {
            links_.health.tester().HandleReport(id, report);
          },
      .on_path_health =
          [this](AgentId id, const auto& health) {
            const std::size_t dropped = reports_.waiting.Add(id, health);
            if (!reports_.waiting.IsEmpty()) turns_.Request();
            if (dropped == 0) return;
            const std::string& name = state_.agents.At(id).name;
            state_.history.RecordOf(name, loop_.Now(), "path_reports_dropped",
                                    fmt::format("agent={} flows={}", name, dropped));
          },
      .on_link_event =
          [this](AgentId id, const auto& event) { return links_.health.HandleNicEvent(id, event); },
      .on_collective_report =
          [this](AgentId id, const auto& report) {
            return jobs_.HandleReport(id, report).has_value();
          },
      .on_new_process =
          [this](AgentId id) {
            reports_.waiting.Forget(id);
            reports_.flows.CloseAll(id);
          },
  };
}

void Controller::HandleAck(AgentId id, const wire::Ack& ack) {
  publisher_.HandleAck(id, ack, loop_.Now());
  operations_.queue.HandleAck();
  if (state_.pushes.NeedsFull(id)) turns_.Request();
}

void Controller::HandleProbeReport(AgentId id, const wire::ProbeReport& report) {
  const std::string& name = state_.agents.At(id).name;
  if (!report.error.empty()) {
    state_.history.RecordOf(
        name, loop_.Now(), "probe_failed",
        fmt::format("agent={} order={} error=\"{}\"", name, report.order, report.error));
  }
  switch (OwnerOfOrder(report.order)) {
    case ProbeOwner::kDiscovery:
      return discovery_.HandleReport(name, report);
    case ProbeOwner::kOperator:
      return learner_.operator_probes().HandleReport(
          report, [&](fabric::NodeId nic) { return sessions_.FindProber(nic) == id; });
    case ProbeOwner::kPathLearner:
      return HandleFindings(learner_.HandleReport(
          report, [&](fabric::NodeId nic) { return sessions_.FindProber(nic) == id; }));
  }
}

void Controller::HandleFindings(const PathLearner::Findings& findings) {
  const auto record = [&](std::string_view kind, const fabric::PortKey& key, std::uint16_t port) {
    const fabric::Node& source = state_.topology.node(key.source);
    state_.history.RecordOf(fabric::HostOf(source), loop_.Now(), std::string(kind),
                            fmt::format("source={} destination={} port={}", source.id,
                                        state_.topology.node(key.destination).id, port));
  };
  for (const PathLearner::Mismatch& mismatch : findings.mismatches) {
    if (verification_.ports.IsSprayed(mismatch.key)) continue;
    record("path_map_mismatch", mismatch.key, mismatch.port);
  }
  for (const PathLearner::QuarantinedPort& quarantined : findings.quarantined) {
    record("port_quarantined", quarantined.key, quarantined.port);
  }
  verification_.ports.HandleFindings(findings);
  links_.health.tester().HandleFindings(findings);
  for (const fabric::PortKey& key : findings.changed) placement_.HandleFindings(key);
  if (findings.changed.empty()) return;
  predictor_.HandleFindings();
  planner_.Request();
  jobs_.HandleFindings();
  turns_.Request();
}

Result<std::size_t> Controller::DeclareStarts(const StartPredictor::Schedule& schedule) {
  auto taken = predictor_.Declare(schedule);
  if (!taken) return taken;
  RecordEvent("starts_declared",
              fmt::format("job={} flows={} taken={}", schedule.job, schedule.flows.size(), *taken));
  planner_.Request();
  return taken;
}

Result<void> Controller::Probe(const OperatorProbes::Request& request, OperatorProbes::Done done) {
  const auto can_probe = [this](fabric::NodeId nic) {
    return sessions_.FindProber(nic).has_value();
  };
  auto order = learner_.operator_probes().Begin(request, can_probe, loop_.Now(), std::move(done));
  if (!order) return Propagate(order);
  sessions_.Send(*sessions_.FindProber(order->source), std::move(order->order));
  return {};
}

void Controller::ApplyPolicies() {
  settings_.Apply(state_.intents.policies);
  const bool observed = std::exchange(state_.steering_basis.observes, settings_.now().observes);
  if (observed == settings_.now().observes) return;
  placement_.ApplySteering();
  turns_.Request();
}

void Controller::ApplyConfiguration(const ControllerOptions& options, const std::string& text) {
  settings_.Reload(options);
  sessions_.ResetAllowances();
  ApplyPolicies();
  RecordEvent("reloaded", text);
}

void Controller::Turn() {
  const TimePoint turn = loop_.Now();
  turns_.Begin();
  reports_.waiting.HandleSome({loop_, kMostOfTurn});
  placement_.RevisitSome({loop_, kMostOfTurn});
  PlaceNew();
  if (placement_.HasWorkLeft() || !reports_.waiting.IsEmpty()) turns_.Request();
  bursts_.FollowMoves();
  OrderProbes();
  publisher_.PushChanges(loop_.Now());
  // After the ports, which do not wait for rates.
  rate_planner_.Update([this] { publisher_.PushChanges(loop_.Now()); });
  metrics_.flows_open.Set(static_cast<double>(state_.flows.size() + state_.edges.all().size()));
  metrics_.topology_version.Set(static_cast<double>(state_.topology.version()));
  planner_.RequestAfterChanges();
  metrics_.turn_seconds.ObserveSeconds(SecondsOf(loop_.Now() - turn));
}

void Controller::PlaceNew() {
  if (!state_.flows.HasNew() && !placement_.HasWorkLeft()) return;
  const TimePoint start = loop_.Now();
  const Placement::Placed placed = placement_.PlaceNew(
      predictor_, turns_.is_late() ? 0 : settings_.now().moves_per_start, {loop_, kMostOfTurn});
  if (placed.flows == 0) return;
  metrics_.assignments.Add();
  metrics_.flows_placed.Add(static_cast<std::int64_t>(placed.flows));
  metrics_.flows_moved.Add(static_cast<std::int64_t>(placed.moved));
  metrics_.assignment_seconds.ObserveSeconds(SecondsOf(loop_.Now() - start));
}

void Controller::OrderProbes() {
  const auto can_probe = [this](fabric::NodeId nic) {
    return sessions_.FindProber(nic).has_value();
  };
  for (PathLearner::Order& order : learner_.TakeOrders(loop_.Now(), can_probe)) {
    sessions_.Send(*sessions_.FindProber(order.source), std::move(order.order));
  }
}

void Controller::HandleBackgroundChange(std::size_t links) {
  planner_.Request();
  if (turns_.is_late()) return;
  const std::size_t limit = settings_.now().moves_per_start;
  NoteRoomMade("background_load", placement_.Relieve(limit * std::min(links, kMostLinksRelieved)));
  turns_.Request();
}

void Controller::MakeRoom() {
  const TimePoint now = loop_.Now();
  const std::size_t limit = settings_.now().moves_per_start;
  NoteRoomMade("local_reroutes", placement_.local_reroutes().MakeRoom(now, limit));
  const Placement::Relief relief = placement_.RelieveLater(now, limit * kMostLinksRelieved);
  NoteRoomMade(relief.why, relief.moved);
}

void Controller::NoteRoomMade(const char* reason, std::size_t moved) {
  if (moved == 0) return;
  metrics_.flows_moved.Add(static_cast<std::int64_t>(moved));
  state_.history.RecordOf("controller", loop_.Now(), "made_room",
                          fmt::format("for={} moved={}", reason, moved));
}

// The order: first what has ended or is overdue, then what is learned and seen, then decisions,
// which rest on that, and last what is sent.
std::vector<PeriodicWork::Task> Controller::MakePeriodicTasks() {
  constexpr Duration kTick = PeriodicWork::kTick;
  constexpr Duration kSecond = std::chrono::seconds(1);
  const auto unless_late = [this](auto task) {
    return [this, task] {
      if (!turns_.is_late()) task();
    };
  };
  return {
      {kTick, "silent_agents", [this] { sessions_.DropSilent(); }},
      {kTick, "flows_of_agents", [this] { reports_.flows.Tick(); }},
      {kTick, "probe_orders", [this] { HandleFindings(learner_.ExpireOrders(loop_.Now())); }},
      {kTick, "operator_probes", [this] { learner_.operator_probes().Expire(loop_.Now()); }},
      {kTick, "discovery", [this] { discovery_.Tick(); }},
      {kTick, "unacknowledged_pushes", [this] { publisher_.ResendUnacknowledged(loop_.Now()); }},
      {kTick, "collective_jobs", [this] { jobs_.Tick(loop_.Now()); }},
      {kSecond, "scheduled_intents", [this] { operations_.queue.ApplySchedule(); }},
      {kSecond, "refused_peers", [this] { sessions_.RecordRefusals(); }},
      {kTick, "dropped_events", [this] { state_.history.RecordDropped(loop_.Now()); }},
      {kTick, "stored_events", [this] { events_.StoreNew(); }},
      {kSecond, "unused_paths", [this] { ForgetUnusedPaths(); }},
      {kTick, "predicted_starts", [this] { predictor_.Tick(loop_.Now()); }},
      {kTick, "phase_plan",
       [this] {
         if (bursts_.RefreshPlan(loop_.Now()) > 0) placement_.HandleLostPlan(loop_.Now());
       }},
      {kTick, "link_health", [this] { links_.health.Tick(); }},
      {kTick, "background_loads", [this] { links_.background.Tick(loop_.Now()); }},
      {kTick, "ledger", unless_late([this] { ledger_.Tick(loop_.Now()); })},
      {kSecond, "sightings", [this] { links_.sightings.Tick(loop_.Now()); }},
      {kTick, "crowded_links", unless_late([this] { MakeRoom(); })},
      {kTick, "dead_return_paths", [this] { placement_.RerouteDeadReturns(); }},
      {kTick, "shares", unless_late([this] { placement_.BalanceSplits(loop_.Now()); })},
      {kTick, "standby_paths", unless_late([this] {
         if (settings_.now().plan_ahead) placement_.standbys().Tick();
       })},
      {kTick, "plans", [this] { planner_.Request(); }},
      {kTick, "port_verification", [this] { verification_.ports.Tick(); }},
      {kTick, "load_bound", unless_late([this] { verification_.spread.Tick(); })},
      {AgentSessions::kHeartbeatStep, "heartbeats", [this] { sessions_.SendHeartbeats(); }},
      {kTick, "turn_request", [this] { turns_.Request(); }},
  };
}

void Controller::ForgetUnusedPaths() {
  learner_.ForgetUnused(
      [this](const fabric::PortKey& key) { return state_.flow_paths.pairs().contains(key); });
}

void Controller::VerifyNow(const fabric::PortKey& key, std::uint16_t port) {
  learner_.Verify(key, port);
  turns_.Request();
}

void Controller::RefreshMetrics() {
  const std::vector<FlowSlot> slots = state_.flows.All();
  const auto is_unroutable = [&](FlowSlot slot) {
    return state_.flows.At(slot).status == FlowStatus::kUnroutable;
  };
  metrics_.flows_unroutable.Set(static_cast<double>(std::ranges::count_if(slots, is_unroutable)));
  const LoadSummary loads = Summarize(state_);
  const FabricHealth health =
      HealthOf(state_, loads.reach, links_.health.awaiting_operator().size(), links_.Doubts());
  metrics_.flows_unsteered.Set(static_cast<double>(health.flows_unsteered));
  metrics_.flows_without_path.Set(static_cast<double>(health.reach.without_path));
  metrics_.flows_on_dead_links.Set(static_cast<double>(health.reach.on_dead_link));
  metrics_.flows_on_drained_links.Set(static_cast<double>(health.reach.on_drained_link));
  metrics_.links_down.Set(static_cast<double>(health.links_down));
  metrics_.hosts_without_agent.Set(static_cast<double>(health.hosts_without_agent));
  metrics_.health.Set(static_cast<double>(health.word()));
  metrics_.max_link_load.Set(loads.max_load.Value());
  metrics_.max_link_load_bound.Set(loads.lower_bound.Value());
  metrics_.worst_failure_load.Set(standbys().WorstFailure().load);
  metrics_.events_dropped.Set(static_cast<double>(state_.history.dropped()));
}

}  // namespace espalier::controller
