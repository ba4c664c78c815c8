#pragma once

#include <vector>

#include "common/base/metrics.h"
#include "common/fabric/topology.h"
#include "controller/telemetry/controller_feed.h"
#include "controller/telemetry/polls/link_states.h"

namespace espalier::telemetry {

// Hands the states of links that the controller has yet to hear of to it, one report after another.
// What it does not answer is sent again. Thread safety: the loop's thread. The others must outlive
// it, and the feed must not call back after it is gone.
class StateReports {
 public:
  StateReports(ControllerFeed& feed, const fabric::Topology& topology, LinkStates& links,
               Metrics& metrics);

  // Sends what is due, unless a report is on its way. To be called after changes, and at times, so
  // that what failed is tried again.
  void Send();

 private:
  void HandleAnswer(const std::vector<LinkStates::LinkState>& report, int status);

  ControllerFeed& feed_;
  const fabric::Topology& topology_;
  LinkStates& links_;
  bool is_sending_ = false;
  Counter& accepted_;
  Counter& refused_;
};

}  // namespace espalier::telemetry
