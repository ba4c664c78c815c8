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
#include "controller/links/link_quality.h"
#include "controller/links/link_recovery_probes.h"
#include "controller/state/state.h"
#include "controller/store/store.h"
#include "proto/messages.h"

namespace espalier::controller {

// Decides which links are down by the reports of agents on their own NICs, of telemetry feeds, and
// of hosts whose flows make no progress. It weighs the reports (LinkMonitor), orders probes of
// doubtful links, and stores the reports of feeds, so that these survive a restart until something
// newer is known.
// Thread safety: the controller's loop thread. The references must outlive it.
class LinkHealth {
 public:
  // `find_prober` finds the agent that can probe from a NIC; `send` sends it an order.
  struct Callbacks {
    std::function<std::optional<AgentId>(fabric::NodeId nic)> find_prober;
    std::function<void(AgentId, wire::ProbeOrder)> send;
    // Orders a probe of a port in use; its answer goes to quality().
    std::function<void(const UsedPort&)> verify;
    // The path of what comes back to a TCP port, if it is known.
    std::function<std::optional<fabric::PathIndex>(const UsedPort&)> predict_return;
    // The result of IsDown has changed for some link, or State::slow_links has.
    std::function<void()> on_change;
  };
  LinkHealth(State& state, const LinkMonitorOptions& options, WallClock clock, EventLoop& loop,
             Store& store, Callbacks callbacks, Metrics& metrics);

  // Restores the feed reports that an earlier controller stored. Makes no callbacks: the caller
  // applies the states of links afterwards.
  void Restore(const ReportedLinks& reported);

  // A telemetry feed reports that a link is down or up. A link that is up is used again once it has
  // stayed up for a while and a probe has passed it, if any agent can probe it.
  void HandleFeedReport(fabric::LinkId link, bool up, const std::string& source);
  // False: it is not the agent's own NIC.
  bool HandleNicEvent(AgentId id, const wire::LinkEvent& event);
  // A host found this path of its flow dead. Call Update after the last report of a message.
  void HandlePathFailure(AgentId id, const Flow& flow, std::uint32_t path);
  // The same of a path that answers probes, while nothing comes back of what the flow sends. Only a
  // timer of TCP says so, which also fires where a host is busy. So the links of the return path
  // are probed and not accused, if it is known.
  void HandleLostAnswers(AgentId id, const Flow& flow, std::uint32_t path);
  // Flows that made progress show which links carry traffic. Does nothing without failure reports.
  void HandleDeliveries(AgentId id, const wire::FlowReport& report);
  // Answers to the probes that this object ordered.
  void HandleFailureProbe(AgentId id, const wire::ProbeReport& report);
  void HandleRecoveryProbe(AgentId id, const wire::ProbeReport& report);
  // Applies what follows from all reports so far.
  void Update();
  // Orders probes again, and retries writes to the store. To be called periodically.
  void Tick();

  // Finds slow links; the caller calls its Tick.
  LinkQuality& quality() { return quality_; }

  bool IsDown(fabric::LinkId link) const {
    return nics_down_.contains(link) || detected_down_.contains(link);
  }
  const std::set<fabric::LinkId>& detected_down() const { return detected_down_; }
  // Links that are reported as down and stay in use beyond the detection budget
  // (LinkMonitor::AwaitingOperator).
  const std::set<fabric::LinkId>& awaiting_operator() const { return awaiting_operator_; }

 private:
  void Send(std::vector<LinkFailureProbes::AddressedProbe> probes);
  // The path of what comes back to a port of the flow; null: unknown.
  const fabric::Path* ReturnPath(const Flow& flow, std::uint16_t port) const;
  // Has other hosts probe the links of this path.
  void ProbePath(AgentId id, const fabric::Path& path);
  bool IsFailedByOperator(fabric::LinkId link) const;
  // Records as events which links begin or cease to await the operator.
  void RecordAwaitingOperator(const std::set<fabric::LinkId>& before);
  void ForgetFeedReport(fabric::LinkId link);
  // Writes the reports of feeds to the store; Tick retries after a failure.
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
  LinkQuality quality_;
  std::set<fabric::LinkId> nics_down_;      // links of NICs that their agents report as down
  std::set<fabric::LinkId> detected_down_;  // as the monitor decided
  std::set<fabric::LinkId> awaiting_operator_;
  ReportedLinks feed_down_;    // the latest reports of feeds, restored at the start
  bool feed_changed_ = false;  // feed_down_ differs from the store
  bool storing_feed_ = false;
  Counter& links_detected_down_;
  Counter& budget_exceeded_;
  Gauge& links_waiting_;
};

}  // namespace espalier::controller
