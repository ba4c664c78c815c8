#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/bus.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "controller/agents/agent_sessions.h"
#include "controller/agents/flow_intake.h"
#include "controller/agents/health_queue.h"
#include "controller/agents/path_health_intake.h"
#include "controller/agents/publisher.h"
#include "controller/discovery/discovery_run.h"
#include "controller/forests/tree_jobs.h"
#include "controller/ledger/ledger.h"
#include "controller/links/links.h"
#include "controller/operations/action_effects.h"
#include "controller/operations/operation_queue.h"
#include "controller/operations/operator_actions.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/arrivals/bursts.h"
#include "controller/placement/balance/rate_planner.h"
#include "controller/placement/placement.h"
#include "controller/placement/ports/return_paths.h"
#include "controller/placement/verify/port_verifier.h"
#include "controller/placement/verify/spread_watch.h"
#include "controller/planning/background_planner.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/periodic_work.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/settings.h"
#include "controller/state/event_persister.h"
#include "controller/state/fabric_health.h"
#include "controller/state/state.h"
#include "controller/turn_metrics.h"
#include "controller/turns.h"

namespace espalier::controller {

// The controller of one cluster. It receives reports of elephant flows from the agents, assigns
// paths, learns which source port takes which path, and pushes the ports (flow A of
// docs/architecture.md). It also carries out operators' intents (flow B). It runs in any EventLoop
// over any Bus, real or simulated.
//
// Each of its modules owns a part of the work. The controller hands them what concerns them and
// runs their turns. A turn is posted when there is work and handles all events that have arrived by
// then, so that a burst of flow arrivals is one assignment.
//
// Thread safety: everything on the loop's thread. The references must outlive it.
class Controller {
 public:
  Controller(fabric::Topology topology, ControllerOptions options, EventLoop& loop, Bus& bus,
             Store& store, Metrics& metrics);

  // Takes over the intents and events of the controller before it, raises the epoch, and listens.
  // Call once; it waits for the store. Errors: the store's.
  Result<void> Start();

  // The actions that operators can ask for.
  OperatorActions& actions() { return operations_.actions; }
  // The bus refused or disconnected a peer: AgentSessions::HandleRefusal.
  void HandleRefusal(const std::string& who, const std::string& reason) {
    sessions_.HandleRefusal(who, reason);
  }
  // The discovery of the fabric by the agents.
  discovery::DiscoveryRun& discovery_run() { return discovery_; }
  // Where telemetry feeds report.
  Links& links() { return links_; }
  // A job's scheduler or profiler declares the flows it will start: StartPredictor::Declare.
  Result<std::size_t> DeclareStarts(const StartPredictor::Schedule& schedule);
  // Asks a host which path its source ports take now: OperatorProbes::Begin.
  Result<void> Probe(const OperatorProbes::Request& request, OperatorProbes::Done done);
  // Applies a configuration that was read again, as far as Settings::Reload takes it. `text` is the
  // text of the event that records it.
  void ApplyConfiguration(const ControllerOptions& options, const std::string& text);
  void RecordEvent(const std::string& kind, const std::string& text) {
    state_.history.Record(loop_.Now(), kind, text);
  }
  // Updates the metrics that are not kept up to date continuously. O(flows + links).
  void RefreshMetrics();

  // For views (controller/api); valid until the next callback of the loop.
  const State& state() const { return state_; }
  const StartPredictor& predictor() const { return predictor_; }
  const TreeJobs& jobs() const { return jobs_; }
  const FailurePlans& failure_plans() const { return failure_plans_; }
  const Links& links() const { return links_; }
  const Ledger& ledger() const { return ledger_; }
  const Standbys& standbys() const { return placement_.standbys(); }
  const ReturnPaths& returns() const { return placement_.returns(); }
  const Settings& settings() const { return settings_; }
  TimePoint Now() const { return loop_.Now(); }
  WallTime WallNow() const { return settings_.now().wall_clock(); }
  EventLoop& loop() { return loop_; }

 private:
  AgentSessions::Handlers MakeHandlers();
  void HandleAck(AgentId id, const wire::Ack& ack);
  void HandleProbeReport(AgentId id, const wire::ProbeReport& report);
  void HandleFindings(const PathLearner::Findings& findings);
  void ApplyPolicies();

  LinkHealth::Callbacks MakeLinkCallbacks();
  ActionEffects::Callbacks MakeEffectsCallbacks();
  BackgroundPlanner::Callbacks MakePlannerCallbacks();

  void Turn();
  void PlaceNew();
  void OrderProbes();
  void VerifyNow(const fabric::PortKey& key, std::uint16_t port);
  // Moves flows off links that background traffic fills, as far as moves are allowed.
  void HandleBackgroundChange(std::size_t links);
  // Moves flows off paths that agents' local reroutes have overloaded, and to links that returned.
  void MakeRoom();
  void NoteRoomMade(const char* reason, std::size_t moved);

  std::vector<PeriodicWork::Task> MakePeriodicTasks();
  void ForgetUnusedPaths();

  EventLoop& loop_;
  Store& store_;
  Settings settings_;
  State state_;
  EventPersister events_;
  Turns turns_;
  PathLearner learner_;
  AgentSessions sessions_;
  discovery::DiscoveryRun discovery_;
  StartPredictor predictor_;
  FailurePlans failure_plans_;
  Links links_;
  Placement placement_;
  Bursts bursts_;
  RatePlanner rate_planner_;
  Publisher publisher_;
  TreeJobs jobs_;
  Ledger ledger_;
  struct Reports {
    FlowIntake flows;
    PathHealthIntake paths;
    HealthQueue waiting;
  };
  Reports reports_;
  struct Verification {
    PortVerifier ports;
    SpreadWatch spread;
  };
  Verification verification_;
  ActionEffects effects_;
  struct Operations {
    OperationQueue queue;
    OperatorActions actions;
  };
  Operations operations_;
  BackgroundPlanner planner_;
  TurnMetrics metrics_;
  PeriodicWork periodic_;
};

}  // namespace espalier::controller
