#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "common/base/event_loop.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/admission.h"
#include "controller/placement/arrival_placer.h"
#include "controller/placement/port_binder.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Handles local reroutes. An agent that leaves a dead path on its own picks a port at random, so
// the flow may land on a loaded path. This class finds the new path by a probe and moves other
// flows off it if necessary.
// Thread safety: the controller's loop thread. The references must outlive it.
class LocalReroutes {
 public:
  LocalReroutes(State& state, PathLearner& learner, Admission& admission, ArrivalPlacer& placer,
                PortBinder& ports)
      : state_(state), learner_(learner), admission_(admission), placer_(placer), ports_(ports) {}

  // The agent has left this path of its flow and uses this port now. The flow's last kMaxLeftPorts
  // left ports are not chosen for it again: the fault may lie on the return path, which depends on
  // the port and not on the path that was left.
  void Handle(FlowSlot slot, std::uint32_t left_path, std::uint16_t port, TimePoint now);
  // Makes room for rerouted flows that have a link above its even share, by at most `move_limit`
  // moves for each. Flows that were not rerouted move first, as rerouted ones have just found a
  // path that works. A flow is considered from some time after its reroute on: until then, hosts
  // may still find that the path it left, which looks free, is dead for all. Room is made for a
  // reroute a few times at most. Returns how many flows moved. To be called periodically;
  // O(rerouted flows).
  std::size_t MakeRoom(TimePoint now, std::size_t move_limit);
  // Forgets a flow that ends.
  void Forget(FlowSlot slot);

 private:
  struct Rerouted {
    TimePoint since{};                       // of the last reroute
    int times = 0;                           // that room was made since
    std::deque<std::uint16_t> left_ports{};  // kept taken, so that no flow gets them
  };

  // Whether a link on its paths is above its even share.
  bool IsTight(const Flow& flow) const;
  std::vector<FlowSlot> TakeTight(TimePoint now);
  // Unpins the flows that are on planned paths.
  void LeavePlan();

  State& state_;
  PathLearner& learner_;
  Admission& admission_;
  ArrivalPlacer& placer_;
  PortBinder& ports_;
  std::map<FlowSlot, Rerouted> rerouted_;  // flows that are open
};

}  // namespace espalier::controller
