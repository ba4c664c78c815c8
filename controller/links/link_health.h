#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/link_tests/link_tester.h"
#include "controller/links/link_monitor.h"
#include "controller/paths/verification_schedule.h"
#include "controller/state/state.h"
#include "controller/store/store.h"
#include "proto/messages.h"

namespace espalier::controller {

// Decides which links are out of use, by the tests of hosts (LinkTester), the reports of agents on
// their own NICs, and those of telemetry feeds. It weighs them (LinkMonitor), alone writes
// State::link_faults, and stores the reports of feeds, so that these survive a restart until
// something newer is known.
//
// What a host says of its flows takes no link out of use: it has the links tested.
// Thread safety: the controller's loop thread. The references must outlive it.
class LinkHealth {
 public:
  struct Options {
    LinkMonitorOptions monitor;
    LinkTestOptions tests;
    bool hashes_protocol = true;  // whether TCP takes other paths than UDP from the same port
  };
  struct Callbacks {
    // Finds the agent that can probe from a NIC; sends it an order.
    std::function<std::optional<AgentId>(fabric::NodeId nic)> find_prober;
    std::function<void(AgentId, wire::TrainOrder)> send;
    std::function<void()> request_turn;  // probes were requested of the path learner
    // The path of what comes back to a TCP port, if it is known.
    std::function<std::optional<fabric::PathIndex>(const UsedPort&)> predict_return;
    // IsDown or State::link_faults has changed.
    std::function<void()> on_change;
  };
  LinkHealth(State& state, const Options& options, WallClock clock, EventLoop& loop, Store& store,
             PathLearner& learner, Callbacks callbacks, Metrics& metrics);

  // Restores the feed reports that an earlier controller stored. Makes no callbacks: the caller
  // applies the states of links afterwards.
  void Restore(const ReportedLinks& reported);

  // A telemetry feed reports that a link is down or up. A link that is up is used again once it has
  // stayed up for a while and trains have passed it, if it can be tested.
  void HandleFeedReport(fabric::LinkId link, bool up, const std::string& source);
  // False: it is not the agent's own NIC.
  bool HandleNicEvent(AgentId id, const wire::LinkEvent& event);
  // A host has seen that this path of its flow is dead: its links are tested at once.
  void HandlePathFailure(AgentId id, const Flow& flow, std::uint32_t path);
  // The same of a path that answers probes, while nothing comes back of what the flow sends: the
  // links of the return path are tested, if it is known.
  void HandleLostAnswers(AgentId id, const Flow& flow, std::uint32_t path);
  // The host's kernel or device has counted that a subflow on this path repeats packets.
  void HandleRepeats(AgentId id, const Flow& flow, std::uint32_t path);
  // To be called every 100 ms.
  void Tick();

  LinkTester& tester() { return tester_; }
  const LinkTester& tester() const { return tester_; }
  // Whether the link is down by reports of feeds, agents or tests.
  bool IsDown(fabric::LinkId link) const {
    return nics_down_.contains(link) || monitor_.UseOf(link) == LinkMonitor::Use::kDown;
  }
  // Who has found the link down and since when, or what tests counted, in words; "" if nobody has.
  std::string WhyDown(fabric::LinkId link) const;
  // The links that a telemetry feed reports as down, and not as up since.
  const ReportedLinks& reported_down() const { return feed_down_; }
  // Links that are reported as dead and stay in use until an operator fails them, because a budget
  // is spent.
  const std::set<fabric::LinkId>& awaiting_operator() const { return awaiting_operator_; }

 private:
  void HandleFault(const LinkFault& fault);
  void AskTests();
  // Whether the link is down by an operator's word or the topology file alone.
  bool IsDownOtherwise(fabric::LinkId link) const;
  // Applies what follows from all reports so far.
  void Update();
  void RecordChange(const LinkMonitor::Change& change);
  void RecordAwaitingOperator(const std::set<fabric::LinkId>& before);
  void ForgetFeedReport(fabric::LinkId link);
  void StoreFeedReports();
  bool IsFailedByOperator(fabric::LinkId id) const;
  const fabric::Path* ReturnPath(const Flow& flow, std::uint16_t port) const;

  State& state_;
  const std::size_t most_links_;
  WallClock clock_;
  EventLoop& loop_;
  Store& store_;
  Callbacks callbacks_;
  LinkMonitor monitor_;
  LinkTester tester_;
  std::map<fabric::LinkId, LinkFault> found_;  // by tests, as last reported
  std::set<fabric::LinkId> nics_down_;
  std::int64_t asked_version_ = -1;  // of the topology for which tests know what is out of use
  std::set<fabric::LinkId> awaiting_operator_;
  ReportedLinks feed_down_;
  bool feed_changed_ = false;
  bool storing_feed_ = false;
  Counter& links_detected_down_;
  Counter& links_found_lossy_;
  Counter& budget_exceeded_;
  Gauge& links_waiting_;
};

}  // namespace espalier::controller
