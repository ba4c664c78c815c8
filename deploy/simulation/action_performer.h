#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "deploy/simulation/cluster.h"
#include "deploy/simulation/event_log.h"
#include "deploy/simulation/scenario.h"

namespace espalier::simulation {

// Performs the actions of a scenario at their times, and logs each of them. Operators' actions go
// to the controller as an operator's would, and their outcome is logged when it is known.
// Thread safety: one thread. The references must outlive it.
class ActionPerformer {
 public:
  ActionPerformer(Cluster& cluster, const std::vector<Action>& actions, EventLog& log);

  // Starts the clock of the actions. Call once.
  void Begin();

 private:
  void Perform(const Action& action);
  void PerformOperators(const Action& action);
  void SetLinks(const Action& action, fabric::LinkState state);
  void StartOrKill(const Action& action);
  void DisturbNetwork(const Action& action);
  // "fail leaf0--spine1", "messages", "agent-down h3", ...
  std::string Describe(const Action& action) const;

  Cluster& cluster_;
  const std::vector<Action>& actions_;
  EventLog& log_;
  std::unique_ptr<EventLoop> loop_;
  std::vector<TimerPtr> timers_;
};

}  // namespace espalier::simulation
