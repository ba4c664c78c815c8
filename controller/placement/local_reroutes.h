#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "common/base/event_loop.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/admission.h"
#include "controller/placement/arrival_placer.h"
#include "controller/placement/port_binder.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Flows whose agents left a dead path by themselves. An agent that does so draws a port at random,
// so that the flow may land on a path that is loaded: finds out where it is, and has others make
// room where it meets them. Thread safety: the controller's loop thread. The references must
// outlive it.
class LocalReroutes {
 public:
  LocalReroutes(State& state, PathLearner& learner, Admission& admission, ArrivalPlacer& placer,
                PortBinder& ports)
      : state_(state), learner_(learner), admission_(admission), placer_(placer), ports_(ports) {}

  // The agent left this path of its flow, and uses this port now. The port that it left is not
  // chosen for it again (its last kMaxLeftPorts are not): more than the path may have been wrong
  // with it, as acknowledgements go their own way back.
  void Handle(FlowSlot slot, std::uint32_t left_path, std::uint16_t port, TimePoint now);
  // Where flows that were rerouted some time ago carry a link above an even share, others make room
  // by at most `move_limit` for each: rather those that were not rerouted, which have not just
  // found a path that works. The time is for hosts to tell whether the path that was left, which
  // looks free now, is dead for all: less where some link is known to be. How many flows moved. To
  // be called now and then; O(flows that were rerouted).
  std::size_t MakeRoom(TimePoint now, std::size_t move_limit);
  // The flow ends.
  void Forget(FlowSlot slot);

 private:
  struct Rerouted {
    std::optional<TimePoint> since;          // nobody has looked yet whether it needs room
    std::deque<std::uint16_t> left_ports{};  // taken, so that nobody gets them
  };

  // A link of its paths carries more than an even share.
  bool IsTight(const Flow& flow) const;
  std::vector<FlowSlot> TakeTight(TimePoint now);

  State& state_;
  PathLearner& learner_;
  Admission& admission_;
  ArrivalPlacer& placer_;
  PortBinder& ports_;
  std::map<FlowSlot, Rerouted> rerouted_;  // flows that are open
};

}  // namespace espalier::controller
