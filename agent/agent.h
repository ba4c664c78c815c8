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
#include "agent/flows/guard/path_guard.h"
#include "agent/flows/guard/path_sampler.h"
#include "agent/flows/port_table.h"
#include "agent/flows/rank_plan_table.h"
#include "agent/flows/send_budget.h"
#include "agent/probe/link_tester.h"
#include "agent/probe/probe_socket.h"
#include "agent/probe/prober.h"
#include "agent/probe/train_socket.h"
#include "common/base/bus.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "proto/decode.h"
#include "proto/messages.h"

namespace espalier::agent {

struct AgentOptions {
  std::string name;            // the `host` of this host's nodes in the topology
  std::uint64_t instance = 0;  // random, different for each process
  std::vector<std::string> features;
  // Returns the features that come and go. The agent calls it at every heartbeat and sends another
  // Hello when they have changed. Empty: there are none.
  std::function<std::vector<std::string>()> dynamic_features;
  std::vector<wire::Nic> nics;
  Duration lease = std::chrono::minutes(10);  // of pushed ports, while the controller is silent
  Duration min_hello_wait = std::chrono::milliseconds(100);  // doubled after each unanswered Hello
  Duration max_hello_wait = std::chrono::seconds(5);
  Duration refused_hello_wait = std::chrono::seconds(5);
  // The shortest time between two looks at the flows without a cause; longer for many flows.
  Duration look_interval = std::chrono::milliseconds(2);
  FlowMeterOptions meter;
  FlowReporterOptions reporter;
  PathGuardOptions guard;
  PathSamplerOptions sampler;
  ProberOptions prober;
  LinkTesterOptions link_tests;
};

//   kConnecting  no controller has welcomed the agent yet
//   kSynced      the controller has welcomed the agent, which reports flows and applies pushes
//   kOrphan      the controller is silent; flows keep their ports for the lease, without rate
//   limits
enum class AgentState { kConnecting, kSynced, kOrphan };
std::string_view AgentStateName(AgentState state);

// The agent of one host: it reports the elephants of its FlowSource to the controller, applies
// pushed paths through the FlowActuator, carries out orders of probes and probe trains, and
// reroutes flows off dead paths locally. No flow ever waits for the agent or for the controller.
//
// The agent repeats Hello until a Welcome arrives, and answers each accepted Welcome by a full
// report. It says Hello again after three heartbeat intervals without a message from the
// controller, and after a message from another instance of the controller.
//
// Thread safety: the thread of the loop. The bus must not deliver messages after the agent's
// destruction.
class Agent {
 public:
  Agent(AgentOptions options, EventLoop& loop, Bus& bus, FlowSource& source, FlowActuator& actuator,
        ProbeSocket& probes, TrainSocket& trains, Metrics& metrics);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  void Start();
  // Handles a change of a NIC's link, and a new NIC.
  void HandleNic(const wire::Nic& nic);

  // Sets what is called with each rank plan of this host that comes into force. A rank plan without
  // a program means that the rank has none any more. To be called before Start.
  void OnPlan(std::function<void(const wire::RankPlan&)> callback) {
    plans_.OnChange(std::move(callback));
  }
  // Forwards a rank's report of a collective. The report is lost if there is no controller, or if
  // ranks report more than the agent may send.
  void SendReport(const wire::CollectiveReport& report);

  AgentState state() const { return state_; }

 private:
  // The controller that has welcomed the agent.
  struct Controller {
    std::uint64_t instance = 0;
    Duration heartbeat_interval{};
    TimePoint last_heard{};
    std::vector<std::string> sent_features;  // in the last Hello
    // In state kSynced: a Hello with other features is under way, after which the count of reports
    // begins again.
    bool owes_welcome = false;
  };
  struct Timers {
    TimerPtr hello;
    TimerPtr heartbeat;
    TimerPtr lease;
    TimerPtr look;
    TimerPtr change;  // a look after a source has reported a change
  };

  void SetState(AgentState state);
  // Drops and counts the message if the budget has no room for its class.
  void Send(wire::Body body);
  // Sends whatever the budget says, and charges it. Returns false if the bus has no room.
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
  void Handle(const wire::TrainOrder& order);
  void HandleUnexpectedMessage(const wire::Message& message);
  void SendHeartbeat();
  void LoseController();
  bool IsOwnAddress(const IpAddress& address) const;
  void LiftRates();
  void ExpireLease();
  void Look();
  Duration LookInterval(std::size_t flows) const;
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
  LinkTester link_tester_;
  PathSampler sampler_;
  wire::Decoder decoder_;

  std::vector<wire::Nic> nics_;
  AgentState state_ = AgentState::kConnecting;
  Controller controller_;
  Duration hello_wait_{};
  std::uint64_t report_sequence_ = 0;
  bool needs_full_report_ = false;
  bool owes_report_ = false;  // the budget had no room for the last one
  TokenBucket looks_;         // limits looks after changes
  SendBudget budget_;
  wire::PathHealth held_health_;  // verdicts for which the budget had no room

  Timers timers_;

  AgentMetrics metrics_;
};

}  // namespace espalier::agent
