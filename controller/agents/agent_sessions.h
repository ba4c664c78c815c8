#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/bus.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "controller/discovery/probe_evidence.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "controller/store/store.h"
#include "proto/decode.h"

namespace espalier::controller {

// The sessions of agents with this controller, from Hello to silence, and the bus peer of each. It
// decodes messages, holds each agent to its allowance, and passes the messages to the handlers by
// the agent's number. It sends heartbeats, and the messages that other modules have for an agent.
//
// An agent's claims are checked before anything of them is kept: its name against its key, the
// epoch that it has seen against the highest possible one, its number of entries against its
// allowance.
// Thread safety: the controller's loop thread. The references must outlive it.
class AgentSessions {
 public:
  // Receive agents' messages. Of link events and collective reports, false refuses the message,
  // which then counts as bad.
  struct Handlers {
    // False: an earlier report of the agent is missing. The session is then reset.
    std::function<bool(AgentId, const wire::FlowReport&)> on_flow_report;
    std::function<void(AgentId, const wire::Ack&)> on_ack;
    std::function<void(AgentId, const wire::ProbeReport&)> on_probe_report;
    std::function<void(AgentId, const wire::TrainReport&)> on_train_report;
    std::function<void(AgentId, const wire::PathHealth&)> on_path_health;
    std::function<bool(AgentId, const wire::LinkEvent&)> on_link_event;
    std::function<bool(AgentId, const wire::CollectiveReport&)> on_collective_report;
    // Another process uses the agent's name: all flows of the earlier process have ended.
    std::function<void(AgentId)> on_new_process;
  };

  AgentSessions(State& state, const ControllerOptions& options, EventLoop& loop, Bus& bus,
                Store& store, Metrics& metrics);

  // Begins to listen. State::epoch must hold the epoch from the store. Call once.
  void Start(Handlers handlers);

  // False: the agent is not connected, or its queue is full, and the message is dropped.
  bool Send(AgentId id, wire::Body body);
  // The agent that can send probes from this NIC, if it is connected.
  std::optional<AgentId> FindProber(fabric::NodeId nic) const;
  // The NICs, up, of all connected agents that can probe.
  std::vector<discovery::Endpoint> ProbingNics() const;
  // The bus refused or disconnected a peer; `who` is an agent's name or an address. Refusals are
  // counted and recorded as events, of which unknown peers cause only a few a second.
  void HandleRefusal(const std::string& who, const std::string& reason);
  // The limits of agents have changed: resets all allowances.
  void ResetAllowances();

  // Disconnects agents that have been silent for too long. To be called periodically.
  void DropSilent();
  // Sends heartbeats to a part of the agents, so that each agent gets one in each interval of
  // heartbeats. To be called once in each kHeartbeatStep.
  static constexpr Duration kHeartbeatStep = std::chrono::milliseconds(100);
  void SendHeartbeats();
  // Records the refusals since the last call as events. To be called once a second.
  void RecordRefusals();

 private:
  void HandleMessage(PeerId peer, std::string_view bytes);
  void HandleBody(AgentId id, const wire::Body& body);
  void HandleBadMessage(PeerId peer, std::size_t bytes, const Error& error);
  void HandleHello(PeerId peer, std::uint64_t instance, const wire::Hello& hello);
  // Why this Hello is refused; none: its contents are acceptable.
  std::optional<std::string> CheckHello(std::uint64_t instance, const wire::Hello& hello,
                                        const Agent& agent) const;
  void Welcome(AgentId id, PeerId peer, std::uint64_t instance, const wire::Hello& hello);
  // Ends the session of an agent one of whose reports was lost, and with it news of flows. The
  // agent's next session begins with a full report.
  void ResetSession(AgentId id);
  void HandleHeartbeat(AgentId id, const wire::Heartbeat& heartbeat);
  // False: the agent has exceeded its allowance.
  bool HasAllowance(AgentId id, std::int64_t entries);
  void DisconnectAgent(AgentId id);
  void Refuse(PeerId peer, const std::string& name, const std::string& reason);
  // The source of events about this name: the host, or "strangers" for unknown names.
  std::string_view SourceOf(const std::string& name) const;
  // The least time between two progress reports of an agent; 0: as the agent is configured.
  std::uint64_t ReportIntervalUs() const;
  std::uint64_t EpochToRaiseTo(std::uint64_t claimed);
  void RaiseEpoch(std::uint64_t at_least, std::function<void(Result<void>)> done);
  void SendTo(PeerId peer, wire::Body body);

  State& state_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  Bus& bus_;
  Store& store_;
  Handlers handlers_;
  wire::Decoder decoder_;
  const std::uint64_t instance_;
  const std::unordered_set<std::string> hosts_;  // of the topology; a host's name is its agent's
  std::size_t unknown_agents_ = 0;               // agents of hosts outside the topology
  std::uint64_t heartbeats_ = 0;                 // rounds
  std::uint64_t heartbeat_ticks_ = 0;
  std::size_t connected_ = 0;  // agents, when the silent ones were last dropped
  std::vector<std::function<void(Result<void>)>> epoch_waiters_;
  std::uint64_t highest_believable_epoch_ = 0;  // the highest that an agent may claim
  bool has_believed_epoch_ = false;
  std::map<std::pair<std::string, std::string>, std::int64_t>
      refusals_;  // by name and reason, not yet recorded
  Counter& messages_;
  Counter& bad_messages_;
  Counter& peers_refused_;
  Counter& agents_over_limit_;
  LatencyHistogram& decode_seconds_;
  Gauge& agents_connected_;
};

}  // namespace espalier::controller
