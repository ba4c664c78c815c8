#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/base/event_loop.h"
#include "common/fabric/path_map.h"
#include "controller/forests/tree_job.h"
#include "controller/paths/path_learner.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The source ports of the edges of jobs' plans: each makes the fabric take the very path that the
// forest has for its edge. No plan takes a port again that another had within the last minutes, so
// that connections of both can exist.
//
// What comes back on a connection (TCP's acknowledgements) goes by the fabric's own choice: while
// links are dead, ports are taken only where a probe from the other end has found it to be alive.
// Thread safety: the controller's loop thread. The references must outlive it.
class EdgePorts {
 public:
  EdgePorts(State& state, PathLearner& learner, const ControllerOptions& options, EventLoop& loop)
      : state_(state), learner_(learner), options_(options), loop_(loop) {}

  fabric::PortKey KeyOf(const JobPlan& plan, const TreeEdge& edge) const;
  // Whether all edges that cross the fabric have ports that will do; where they have not, probes
  // are asked for.
  bool Choose(JobPlan& plan);
  // Some port of the plan is known by now not to lead to its path.
  bool LeadsElsewhere(const JobPlan& plan) const;
  // Looks after the ways back of a plan that is in force, as far as probes have answered, and says
  // in it where one is dead. Whether it waits for probes.
  bool CheckReturnPaths(JobPlan& plan);
  // The plan is not needed any more: its ports may be chosen again, after a time where anybody has
  // heard of them.
  void Drop(const JobPlan& plan);
  // To be called now and then.
  void ReleaseRested(TimePoint now);

 private:
  enum class ReturnPath { kUnknown, kAlive, kDead };
  struct OldPort {
    TimePoint free_at;
    fabric::PortKey key;
    std::uint16_t port;
  };

  bool ChoosePort(JobPlan& plan, std::size_t edge);
  ReturnPath ReturnPathOf(const TreeEdge& edge, const fabric::PortKey& key, std::uint16_t port);
  ReturnPath ActiveReturnPath(JobPlan& plan, std::size_t edge);

  State& state_;
  PathLearner& learner_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  std::deque<OldPort> old_ports_;  // by free_at
};

}  // namespace espalier::controller
