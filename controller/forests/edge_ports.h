#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

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

  using Keys = std::set<fabric::PortKey>;

  fabric::PortKey KeyOf(const JobPlan& plan, const TreeEdge& edge) const;
  // Returns whether all edges that cross the fabric have suitable ports. Requests probes for those
  // that do not. O(edges) for a plan without open edges, else O(open edges).
  bool Choose(JobPlan& plan);
  // The same after the ports of these keys have changed in the path map. O(changed keys), and
  // O(edges) when no edge is open any more, as all are then looked at once more.
  bool ChooseAgain(JobPlan& plan, const Keys& changed);
  // Whether some port of the plan, or one of these keys, is known not to lead to its path.
  // O(edges), O(changed keys).
  bool LeadsElsewhere(const JobPlan& plan) const;
  bool LeadsElsewhere(const JobPlan& plan, const Keys& changed) const;
  // Requests probes of the return paths of a plan in force, after links have died, and marks in the
  // plan those that are unknown and that one is dead. O(edges).
  void ProbeReturnPaths(JobPlan& plan);
  // Follows the answers to these probes. Returns whether it waits for others. O(changed keys).
  bool CheckReturnPaths(JobPlan& plan, const Keys& changed);
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

  bool ChooseAll(JobPlan& plan);
  bool ChoosePort(JobPlan& plan, std::size_t edge);
  bool LeadsElsewhere(const JobPlan& plan, std::size_t edge) const;
  ReturnPath ReturnPathOf(const TreeEdge& edge, const fabric::PortKey& key, std::uint16_t port);
  void NoteReturnPath(JobPlan& plan, std::size_t edge, ReturnPath back);

  State& state_;
  PathLearner& learner_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  std::deque<OldPort> old_ports_;  // by free_at
};

}  // namespace espalier::controller
