#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_metrics.h"
#include "agent/flows/flow_actuator.h"
#include "agent/flows/flow_meter.h"
#include "agent/flows/flow_reporter.h"
#include "agent/flows/flow_source.h"
#include "agent/flows/path_guard.h"
#include "agent/flows/port_table.h"
#include "agent/flows/rank_plan_table.h"
#include "agent/flows/send_budget.h"
#include "agent/probe/probe_socket.h"
#include "agent/probe/prober.h"
#include "common/base/bus.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "proto/convert.h"
#include "proto/messages.h"

namespace espalier::agent {

struct AgentOptions {
  std::string name;            // the `host` of its nodes in the topology
  std::uint64_t instance = 0;  // random, made anew by each process
  std::vector<std::string> features;
  // Those that come and go: asked at every heartbeat, and told to the controller by another Hello
  // when they have changed. None: there are none.
  std::function<std::vector<std::string>()> dynamic_features;
  std::vector<wire::Nic> nics;
  Duration lease = std::chrono::minutes(10);  // of pushed ports, while the controller is silent
  Duration min_hello_wait = std::chrono::milliseconds(100);  // doubled with each unanswered Hello
  Duration max_hello_wait = std::chrono::seconds(5);
  Duration refused_hello_wait = std::chrono::seconds(5);
  FlowMeterOptions meter;
  FlowReporterOptions reporter;
  PathGuardOptions guard;
  ProberOptions prober;
};

//   kConnecting  has not met a controller yet
//   kSynced      is welcome: reports flows, takes pushes
//   kOrphan      the controller fell silent: live flows keep their ports for the lease
enum class AgentState { kConnecting, kSynced, kOrphan };
std::string_view AgentStateName(AgentState state);

// One host's agent: reports the elephants of its FlowSource to the controller, has the
// FlowActuator carry out what the controller pushes, probes for it, and takes flows off dead paths
// by itself. No flow ever waits for it or for the controller.
//
// Hello is repeated until a Welcome comes; each accepted Welcome is answered by a full report.
// Three heartbeat intervals without a word from the controller, or a word from another instance
// of it, make the agent say Hello again.
//
// Thread safety: the thread of the loop. The bus may deliver nothing after its destruction.
class Agent {
 public:
  Agent(AgentOptions options, EventLoop& loop, Bus& bus, FlowSource& source, FlowActuator& actuator,
        ProbeSocket& probes, Metrics& metrics);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  void Start();
  // A NIC's link changed (or it is new).
  void HandleNic(const wire::Nic& nic);

  // Called with every plan of a rank of this host that comes into force, and with one without a
  // program where the rank has none any more. Before Start.
  void OnPlan(std::function<void(const wire::RankPlan&)> callback) {
    plans_.OnChange(std::move(callback));
  }
  // What a rank says of a collective; lost where there is no controller, or where ranks say more
  // than the agent may send.
  void SendReport(const wire::CollectiveReport& report);

  AgentState state() const { return state_; }

 private:
  // The controller that has welcomed the agent.
  struct Controller {
    std::uint64_t instance = 0;
    Duration heartbeat_interval{};
    TimePoint last_heard{};
  };
  struct Timers {
    TimerPtr hello;
    TimerPtr heartbeat;
    TimerPtr lease;
    TimerPtr look;
    TimerPtr change;  // a look for what sources say has changed
  };

  void SetState(AgentState state);
  // Drops and counts it where there is no room in the budget for its class.
  void Send(wire::Body body);
  // Whatever the budget says, which is charged. False: the bus has no room.
  bool Transmit(wire::Body body);
  void SendHealth(const wire::PathHealth& health);
  void ScheduleScan();
  std::vector<std::string> Features() const;
  void SendHello();
  void HandleBytes(std::string_view bytes);
  void Handle(const wire::Welcome& welcome);
  void Handle(const wire::Heartbeat& heartbeat);
  void TakeReportInterval(std::uint64_t microseconds);
  void Handle(const wire::PathPush& push);
  void Handle(const wire::ProbeOrder& order);
  void HandleUnexpectedMessage(const wire::Message& message);
  void SendHeartbeat();
  void LoseController();
  void ExpireLease();
  void Look();
  void Report(std::span<const FlowMeasure> flows);
  PortInUse PortOf(const FlowSample& sample) const;

  const AgentOptions options_;
  EventLoop& loop_;
  Bus& bus_;
  FlowSource& source_;
  PortTable ports_;
  RankPlanTable plans_;
  FlowMeter meter_;
  FlowReporter reporter_;
  Prober prober_;
  PathGuard guard_;
  wire::Decoder decoder_;

  std::vector<wire::Nic> nics_;
  std::vector<std::string> told_features_;
  AgentState state_ = AgentState::kConnecting;
  Controller controller_;
  Duration hello_wait_{};
  std::uint64_t report_sequence_ = 0;
  bool needs_full_report_ = false;
  bool owes_report_ = false;  // there was no room for the last one
  TokenBucket looks_;         // for what sources say has changed
  SendBudget budget_;
  wire::PathHealth held_health_;  // for which there was no room

  Timers timers_;

  AgentMetrics metrics_;
};

}  // namespace espalier::agent
