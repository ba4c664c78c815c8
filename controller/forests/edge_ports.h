#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/path_map.h"
#include "controller/forests/tree_job.h"
#include "controller/paths/path_learner.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Chooses the source ports of the edges of job plans, each of which makes the fabric take exactly
// the path that the forest has for its edge. A port that a plan gave up rests for some minutes
// before another plan may take it, so that connections of both can exist.
//
// The fabric chooses the return path of a connection (of TCP's acknowledgements) itself. While
// links are dead, only ports are taken whose return path a probe from the other end has found
// alive.
// Thread safety: the controller's loop thread. The references must outlive it.
class EdgePorts {
 public:
  EdgePorts(State& state, PathLearner& learner, const ControllerOptions& options, EventLoop& loop)
      : state_(state), learner_(learner), options_(options), loop_(loop) {}

  fabric::PortKey KeyOf(const JobPlan& plan, const TreeEdge& edge) const;
  // Returns whether all edges that cross the fabric have suitable ports. Requests probes for those
  // that do not.
  bool Choose(JobPlan& plan);
  // Whether some port of the plan is known not to lead to its path.
  bool LeadsElsewhere(const JobPlan& plan) const;
  // Checks the return paths of a plan in force as far as probes have answered, and marks in the
  // plan that one is dead. Returns whether it waits for probes.
  bool CheckReturnPaths(JobPlan& plan);
  // The plan is not needed any more. Its ports may be chosen again, after a rest if the plan was in
  // force.
  void Drop(const JobPlan& plan);
  // Frees the ports that have rested. To be called periodically.
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
