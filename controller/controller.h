#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bus.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "controller/load_summary.h"
#include "controller/options.h"
#include "controller/path_learner.h"
#include "controller/placement.h"
#include "controller/publisher.h"
#include "controller/rate_planner.h"
#include "controller/state.h"
#include "proto/convert.h"

namespace espalier::controller {

// What an operator's action did, or (dry run) would do.
struct ActionOutcome {
  std::int64_t version = 0;  // of the topology, afterwards
  std::vector<FlowMove> moves;
  LoadSummary before;
  LoadSummary after;  // of a dry run of a failure: as before
};

enum class LinkAction { kFail, kRestore, kDrain, kUndrain };
enum class NodeAction { kFail, kRestore };

// The controller of one cluster: hears of elephant flows from the agents, assigns paths, learns
// which source port takes which path, and pushes the ports (ARCHITECTURE flow A); takes the
// operator's intents (flow B). Runs in any EventLoop over any Bus, real or simulated.
//
// One turn does the work that has come up: it is posted when there is something to do and takes
// all that has arrived by then, so a burst of flow starts is one assignment.
//
// Thread safety: everything on the loop's thread. The references must outlive it.
class Controller {
 public:
  Controller(fabric::Topology topology, ControllerOptions options, EventLoop& loop, Bus& bus,
             IntentStore& store, Metrics& metrics);
  ~Controller();

  // Loads the operator's intents, raises the epoch and starts to listen; call once.
  // Errors: the store's.
  Result<void> Start();

  // Operator's actions. An intent is durable before anything moves.
  // Errors: kNotFound (no such link or node), kAlreadyExists (it is in that state already),
  // the store's.
  Result<ActionOutcome> ChangeLink(const std::string& link, LinkAction action,
                                   const std::string& reason, bool dry_run);
  Result<ActionOutcome> ChangeNode(const std::string& node, NodeAction action,
                                   const std::string& reason, bool dry_run);
  ActionOutcome Recompute(bool dry_run);

  // For views (controller/api); valid until the next callback of the loop.
  State& state() { return state_; }
  const ControllerOptions& options() const { return options_; }
  TimePoint Now() const { return loop_.Now(); }
  // Sets the metrics that nobody counts along: O(flows + links), for whoever reads them.
  void RefreshMetrics();
  // Flows that are decided but not yet acknowledged by their agents.
  std::size_t UnacknowledgedFlows();

 private:
  // Messages (controller/messages.cc).
  void HandleMessage(PeerId peer, std::string_view bytes);
  void HandleHello(PeerId peer, std::uint64_t instance, const wire::Hello& hello);
  void HandleHeartbeat(AgentId id, const wire::Heartbeat& heartbeat);
  void StartOver(AgentId id);
  void HandleFlowReport(AgentId id, const wire::FlowReport& report);
  void OpenFlows(AgentId id, const wire::FlowReport& report);
  void CloseFlow(FlowSlot slot);
  void CloseMissingFlows(AgentId id, const wire::FlowReport& report);
  void HandleHealth(AgentId id, const wire::PathHealth& health);
  void HandleLinkEvent(AgentId id, const wire::LinkEvent& event);
  void HandleProbeReport(AgentId id, const wire::ProbeReport& report);
  void Refuse(PeerId peer, const std::string& name, const std::string& reason);

  // Time.
  void RequestTurn();
  void Turn();
  void Tick();
  void DropSilentAgents();
  void VerifyOnePort();
  void TakeFindings(const PathLearner::Findings& findings);

  // Links (controller/operations.cc).
  fabric::LinkState EffectiveState(fabric::LinkId link, const Intents& intents) const;
  // Brings every link to the state that intents and reports give it; the links that changed.
  std::vector<fabric::LinkId> ApplyIntents();
  Result<ActionOutcome> ApplyIntentChange(Intents changed, const std::string& event, bool dry_run);
  std::vector<FlowMove> ReactToLinkChanges(const std::vector<fabric::LinkId>& changed);
  std::vector<FlowMove> WouldMove(const Intents& intents);
  Result<void> RaiseEpoch(std::uint64_t at_least);

  // The agent that can send probes from this NIC, if it is connected.
  std::optional<AgentId> ProbeAgent(fabric::NodeId nic) const;
  bool Send(AgentId id, wire::Body body);
  void SendTo(PeerId peer, wire::Body body);

  ControllerOptions options_;
  EventLoop& loop_;
  Bus& bus_;
  IntentStore& store_;
  State state_;
  std::vector<fabric::LinkState> initial_states_;  // by link, as the topology file has them
  PathLearner learner_;
  Placement placement_;
  RatePlanner rate_planner_;
  Publisher publisher_;
  wire::Decoder decoder_;
  std::uint64_t instance_;
  std::uint64_t heartbeats_ = 0;
  bool turn_pending_ = false;
  TimerPtr tick_;
  TimePoint last_heartbeat_;
  TimePoint last_verify_;
  std::uint32_t verify_cursor_ = 0;

  Counter& messages_;
  Counter& bad_messages_;
  Counter& assignments_;
  Counter& flows_placed_;
  LatencyHistogram& assignment_seconds_;
  Counter& flows_moved_;
  Counter& recomputations_;
  Gauge& flows_open_;
  Gauge& flows_unroutable_;
  Gauge& max_link_load_;
  Gauge& max_link_load_bound_;
  Gauge& agents_connected_;
  Gauge& topology_version_;
};

}  // namespace espalier::controller
