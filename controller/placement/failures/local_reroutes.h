#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/arrivals/admission.h"
#include "controller/placement/arrivals/arrival_placer.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Handles local reroutes. An agent that leaves a dead path on its own picks a port at random, so
// the flow may land on a loaded path. This class finds the new path by a probe and moves other
// flows off it if necessary.
// Thread safety: the controller's loop thread. The references must outlive it.
class LocalReroutes {
 public:
  LocalReroutes(const State& state, FlowDecisions& decisions, PathLearner& learner,
                Admission& admission, ArrivalPlacer& placer, PortBinder& ports)
      : state_(state),
        decisions_(decisions),
        learner_(learner),
        admission_(admission),
        placer_(placer),
        ports_(ports) {}

  // The agent has rerouted a path of its flow (kLocallyRerouted). The flow's last kMaxLeftPorts
  // left ports are not chosen for it again: the fault may lie on the return path, which depends on
  // the port and not on the path that was left.
  void Handle(FlowSlot slot, const wire::FlowHealth& report, TimePoint now);
  // Makes room for rerouted flows that have a link above its even share, by at most `move_limit`
  // moves for each. Flows that were not rerouted move first, as rerouted ones have just found a
  // path that works. A flow is considered from some time after its reroute on: until then, hosts
  // may still find that the path it left, which looks free, is dead for all. Room is made for a
  // reroute a few times at most. Returns how many flows moved. To be called periodically;
  // O(rerouted flows).
  std::size_t MakeRoom(TimePoint now, std::size_t move_limit);
  // Forgets a flow that ends.
  void Forget(FlowSlot slot);
  // How many local reroutes have been taken over, ever.
  std::uint64_t count() const { return count_; }
  // Whether hosts have moved flows since the topology changed last, which no plan may move yet.
  // O(rerouted flows).
  bool AreInForce() const;
  // The directed links of the paths that hosts have found dead and left since the topology changed
  // last (DirectedLink::Index). One of each path is dead, if the hosts are right. O(rerouted
  // flows).
  std::set<std::uint32_t> LeftLinks() const;

 private:
  struct Left {
    std::uint16_t port = 0;            // kept taken, so that no flow gets it
    std::vector<std::uint32_t> links;  // of its path, if it was known, and dead
  };
  struct Rerouted {
    TimePoint since{};        // of the last reroute
    int times = 0;            // that room was made since
    std::deque<Left> left{};  // the last kMaxLeftPorts
  };

  // The index of the subflow that the report is about; none: it is not known which one.
  static std::optional<std::uint32_t> FindLeft(const Flow& flow, const wire::FlowHealth& report);
  // What a flow leaves with this subflow.
  Left WhatIsLeft(const Flow& flow, const Subflow& subflow, bool is_dead) const;
  bool IsInForce(FlowSlot slot) const;

  // Whether a link on its paths is above its even share.
  bool IsTight(const Flow& flow) const;
  std::vector<FlowSlot> TakeTight(TimePoint now);
  // Unpins the flows that are on planned paths.
  void LeavePlan();

  const State& state_;
  FlowDecisions& decisions_;
  PathLearner& learner_;
  Admission& admission_;
  ArrivalPlacer& placer_;
  PortBinder& ports_;
  std::map<FlowSlot, Rerouted> rerouted_;  // flows that are open
  std::uint64_t count_ = 0;
};

}  // namespace espalier::controller
