#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "common/fabric/topology.h"
#include "controller/links/link_failure_probes.h"
#include "controller/links/link_monitor.h"
#include "controller/links/link_recovery_probes.h"
#include "controller/state/state.h"
#include "controller/store/store.h"
#include "proto/messages.h"

namespace espalier::controller {

// Which links are down by what others than operators say: agents of their own NICs, telemetry
// feeds, and hosts whose flows stand still. Weighs their words (LinkMonitor), has hosts probe links
// that are in doubt, and keeps what feeds have said in the store, so that it holds over a restart
// until it is known better. Thread safety: the controller's loop thread. The references must
// outlive it.
class LinkHealth {
 public:
  // `find_prober`: the agent that can probe from a NIC. `send`: an order to that agent.
  struct Callbacks {
    std::function<std::optional<AgentId>(fabric::NodeId nic)> find_prober;
    std::function<void(AgentId, wire::ProbeOrder)> send;
    std::function<void()> on_change;  // IsDown gives another answer for some link than before
  };
  LinkHealth(State& state, const LinkMonitorOptions& options, WallClock clock, EventLoop& loop,
             Store& store, Callbacks callbacks, Metrics& metrics);

  // What an earlier controller heard of feeds holds on. Calls nobody: links are yet to be brought
  // to their states.
  void Restore(const ReportedLinks& reported);

  // A telemetry feed says that a link is down, or up again: it is used again once it has stayed up
  // for a while.
  void HandleFeedReport(fabric::LinkId link, bool up, const std::string& source);
  // False: it is not the agent's own NIC.
  bool HandleNicEvent(AgentId id, const wire::LinkEvent& event);
  // A host found this path of its flow dead. Update follows when all of a message is said.
  void HandlePathFailure(AgentId id, const Flow& flow, std::uint32_t path);
  // Flows that made progress show which links carry traffic, where any is accused.
  void HandleDeliveries(AgentId id, const wire::FlowReport& report);
  // Answers to probes that were ordered here.
  void HandleFailureProbe(AgentId id, const wire::ProbeReport& report);
  void HandleRecoveryProbe(AgentId id, const wire::ProbeReport& report);
  // Draws the conclusions of all that was said by now.
  void Update();
  // Asks hosts again, and stores what could not be stored. To be called now and then.
  void Tick();

  bool IsDown(fabric::LinkId link) const {
    return nics_down_.contains(link) || detected_down_.contains(link);
  }
  const std::set<fabric::LinkId>& detected_down() const { return detected_down_; }
  // Said to be down, but in use: the budget of detection is spent (LinkMonitor::Waiting).
  const std::set<fabric::LinkId>& awaiting_operator() const { return awaiting_operator_; }

 private:
  void Send(std::vector<LinkFailureProbes::AddressedProbe> questions);
  bool IsFailedByOperator(fabric::LinkId link) const;
  // What has come to wait for the operator, or waits no longer.
  void RecordAwaitingOperator(const std::set<fabric::LinkId>& before);
  void ForgetFeedReport(fabric::LinkId link);
  // Brings what feeds have said into the store; again and again where that fails.
  void StoreFeedReports();

  State& state_;
  const std::size_t most_links_;
  WallClock clock_;
  EventLoop& loop_;
  Store& store_;
  Callbacks callbacks_;
  LinkMonitor monitor_;
  LinkFailureProbes failure_probes_;
  LinkRecoveryProbes recovery_probes_;
  std::set<fabric::LinkId> nics_down_;      // by agents, of their own NICs
  std::set<fabric::LinkId> detected_down_;  // by the monitor
  std::set<fabric::LinkId> awaiting_operator_;
  ReportedLinks feed_down_;    // what a feed said last, over restarts
  bool feed_changed_ = false;  // feed_down_, since it was last given to the store
  bool storing_feed_ = false;
  Counter& links_detected_down_;
  Counter& budget_exceeded_;
  Gauge& links_waiting_;
};

}  // namespace espalier::controller
