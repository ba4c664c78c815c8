#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/base/time/time_budget.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Assigns paths to flows without a path, one at a time on top of the present assignment
// (OnlineAssigner). An arrival may move a few flows in progress if a link of its leaves would
// otherwise carry more than its even share.
// Thread safety: the controller's loop thread. The references must outlive it.
class ArrivalPlacer {
 public:
  ArrivalPlacer(const State& state, FlowDecisions& decisions, PortBinder& ports,
                const ControllerOptions& options)
      : state_(state), decisions_(decisions), ports_(ports), options_(options) {}

  struct Placed {
    std::size_t flows = 0;    // new flows
    std::size_t planned = 0;  // of these, flows that took a precomputed path
    std::size_t moved = 0;    // flows in progress that moved to make room
  };
  // Assigns paths to all new flows, in the order of InOrder, and ports if the path map knows them.
  // If the budget has a limit, flows for whose ports it has no time wait for the next call, and so
  // do all beyond kMostAtOnce, of which each agent may have about as many as any other. Flows with
  // a usable precomputed start go first, the others are placed on top of them. Each of the latter
  // may move `move_limit` subflows in progress. The moves that are left, and as many for each
  // departure since the last call, relieve links above their even share.
  Placed PlaceNew(StartPredictor& predictor, std::size_t move_limit, const TimeBudget& budget = {});
  static constexpr std::size_t kMostAtOnce = 8'192;
  bool HasWorkLeft() const { return !waiting_.empty() || !to_settle_.empty(); }
  // Counts a departure, after which links above their even share may be relieved.
  void HandleEnd() { ++ends_; }

  // Finds paths for all subflows of these flows that have none. Each may move `move_limit` subflows
  // in progress; one that would get a path that none of its ports takes stays. Returns the other
  // flows that moved.
  std::set<FlowSlot> FindPaths(std::span<const FlowSlot> slots, std::size_t move_limit);
  // Relieves links above their even share by at most this many moves. Returns the flows that moved;
  // none, without any change, if one of them would have got a path that no port takes.
  std::optional<std::set<FlowSlot>> Relieve(std::size_t move_limit);
  // The same one flow at a time and only to paths that ports take, if its most loaded link then has
  // less load. O(flows).
  std::set<FlowSlot> RelieveOneByOne(std::size_t move_limit);

 private:
  // A flow, whose slot another one may have by now.
  struct Arrival {
    FlowSlot slot;
    AgentId agent;
    wire::LocalFlowId local;
  };
  bool IsOpen(const Arrival& arrival) const;
  std::vector<FlowSlot> TakeNew(std::size_t most);
  // Takes so many of waiting_, and of each agent about as many.
  std::vector<FlowSlot> TakeFairly(std::size_t most);
  void QueueToSettle(FlowSlot slot);
  // Chooses the ports of flows that have paths, a few of each agent in turn, until the budget is
  // spent.
  void SettleSome(const TimeBudget& budget);
  // Applies the precomputed start and adds the flows that it moves to `others`. Returns false if it
  // is outdated and puts a link above its even share; the flow then has no path.
  bool TakePlanned(FlowSlot slot, const StartPredictor::Planned& planned,
                   std::set<FlowSlot>& others);

  const State& state_;
  FlowDecisions& decisions_;
  PortBinder& ports_;
  const ControllerOptions& options_;
  std::size_t ends_ = 0;          // departures since the last PlaceNew
  std::vector<Arrival> waiting_;  // for a path, in the order of their arrival
  // They have paths and wait for ports: by agent, and the agents that have some.
  std::vector<std::deque<Arrival>> unsettled_;
  std::deque<AgentId> to_settle_;
};

// Sorts flows by job name, then agent name, then the agent's flow number. This order does not
// depend on which agent connected first.
std::vector<FlowSlot> InOrder(const State& state, std::vector<FlowSlot> slots);

}  // namespace espalier::controller
