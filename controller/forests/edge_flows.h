#pragma once

#include <cstdint>

#include "common/base/event_loop.h"
#include "controller/forests/edge_ports.h"
#include "controller/forests/tree_job.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The edges of plans in force that cross the fabric: each reserves what it sends on its path, so
// that other flows keep away from it, and stands in the flow table, where operators see it. Thread
// safety: the controller's loop thread. The references must outlive it.
class EdgeFlows {
 public:
  EdgeFlows(State& state, const EdgePorts& ports, EventLoop& loop)
      : state_(state), ports_(ports), loop_(loop) {}

  // Of the job's plan in force.
  void Open(TreeJob& job);
  void Close(JobPlan& plan);

 private:
  State& state_;
  const EdgePorts& ports_;
  EventLoop& loop_;
  std::uint64_t made_ = 0;
};

}  // namespace espalier::controller
