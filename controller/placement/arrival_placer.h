#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <vector>

#include "controller/placement/port_binder.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Assigns paths to flows that have none, one by one on what is there (OnlineAssigner): a new flow
// may move a few live ones where a link of its leaves would carry more than an even share
// otherwise. Thread safety: the controller's loop thread. The references must outlive it.
class ArrivalPlacer {
 public:
  ArrivalPlacer(State& state, PortBinder& ports, const ControllerOptions& options)
      : state_(state), ports_(ports), options_(options) {}

  struct Placed {
    std::size_t flows = 0;    // new ones that were looked at
    std::size_t planned = 0;  // of them those that a plan was ready for
    std::size_t moved = 0;    // live ones that made room for them
  };
  // Assigns paths to all new flows at once, by job and then flow, and ports where the map knows
  // them. First those for which a plan holds, then the others on top of them, each of which may
  // move `move_limit` live ways. What carries more than an even share since flows ended is brought
  // down, too, by as many moves for each end and what is left of the starts'.
  Placed PlaceNew(StartPredictor& predictor, std::size_t move_limit);
  // A flow has ended: links that carried more than an even share beside it may be relieved.
  void HandleEnd() { ++ends_; }

  // Finds paths for all subflows of these flows that have none; each may move `move_limit` live
  // subflows to other paths. The other flows that moved.
  std::set<FlowSlot> FindPaths(std::span<const FlowSlot> slots, std::size_t move_limit);
  // Brings links down that carry more than an even share since others ended, by at most so many
  // moves. The flows that moved.
  std::set<FlowSlot> Relieve(std::size_t move_limit);

 private:
  std::vector<FlowSlot> TakeNew();
  // By the plan, if that holds or is within limits; the flows that moved for it go to `others`.
  bool TakePlanned(FlowSlot slot, const StartPredictor::Planned& planned,
                   std::set<FlowSlot>& others);

  State& state_;
  PortBinder& ports_;
  const ControllerOptions& options_;
  std::size_t ends_ = 0;  // of flows since the last assignment of new ones
};

// By the names of jobs and agents, whose order does not depend on who came first; numbers of flows
// tell which are equal.
std::vector<FlowSlot> InOrder(const State& state, std::vector<FlowSlot> slots);

}  // namespace espalier::controller
