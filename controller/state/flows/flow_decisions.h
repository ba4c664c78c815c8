#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/state/flows/connections.h"
#include "controller/state/flows/flow_paths.h"
#include "controller/state/flows/flow_table.h"
#include "controller/state/flows/may_move.h"
#include "controller/state/flows/port_decisions.h"
#include "controller/state/flows/push_queue.h"

namespace espalier::controller {

// Owns what the controller has decided about open flows (FlowDecision): the only writer, with its
// part PortDecisions for source ports. Everybody else reads decisions from FlowTable. Each method
// is one transition of a flow. It keeps in step what belongs together: the flow's paths and pins in
// FlowPaths, the other end of its connection, and the queue of pushes. MayMove says who may move
// which flow.
//
// The rooms of placement compute which transition is due; nothing is searched or sent here.
// `index` is that of a subflow; a path is an index into PathTable::Between the flow's leaves.
//
// Thread safety: the controller's loop thread. The references must outlive it. O(subflows) unless a
// method says otherwise.
class FlowDecisions {
 public:
  FlowDecisions(const fabric::Topology& topology, const fabric::PathTable& path_table,
                FlowTable& flows, FlowPaths& paths, Connections& connections, PushQueue& pushes)
      : topology_(topology),
        path_table_(path_table),
        flows_(flows),
        paths_(paths),
        connections_(connections),
        pushes_(pushes),
        ports_(flows, paths, pushes) {}

  // Whether this mover may move the flow now (kMoverRules). O(1).
  bool MayMove(FlowSlot slot, Mover mover) const {
    return controller::MayMove(flows_.At(slot), mover, topology_.version());
  }
  PortDecisions& ports() { return ports_; }

  // Arrival and end. The flow's NICs and leaves are known. O(1).
  void SetEnds(FlowSlot slot, const fabric::PortKey& key, fabric::NodeId source_leaf,
               fabric::NodeId destination_leaf);
  // The flow gets no paths: kLocal, kFixed or kUnroutable. O(1).
  void Decline(FlowSlot slot, FlowStatus status) { flows_.SetStatus(slot, status); }
  // Admits a flow between different leaves with so many subflows. `ports`: those that it was
  // steered to before, in the order of its subflows (0: unknown). It becomes kAdopting if one of
  // them is free, else kNew. Returns whether it is kAdopting.
  bool Admit(FlowSlot slot, std::size_t subflows, std::span<const std::uint16_t> ports);
  // Frees the paths and ports of a flow that ends.
  void Release(FlowSlot slot);

  // Adoption. A probe has found the path of the port of an adopting subflow: the subflow is placed
  // there if that path is usable, and loses its port if it is dead.
  void AdoptPath(FlowSlot slot, std::uint32_t index, fabric::PathIndex path);
  // The paths of all ports are known: kRouted, or kNew if a subflow has no path. Pushed.
  void FinishAdoption(FlowSlot slot);
  // Subflows whose ports are still unknown lose them, and the flow becomes kNew.
  void AbandonAdoption(FlowSlot slot);

  // Hosts. The flow's host has rerouted a subflow to this port: kAdopting. False, without any
  // change, if the port is taken. The earlier port stays taken: PortDecisions::Release.
  bool RerouteLocally(FlowSlot slot, std::uint32_t index, std::uint16_t port);
  // Plans may move it again. O(1).
  void EndLocalReroute(FlowSlot slot) { flows_.Mutable(slot).rerouted_in = -1; }

  // Operators do not want it steered: it loses its paths and ports. Pushed.
  void Unsteer(FlowSlot slot);
  // A flow of one path that is not steered has been seen on this path; none: on none that is known
  // and usable.
  void Observe(FlowSlot slot, std::optional<fabric::PathIndex> path);

  // Paths. Gives path ids to subflows that have none and are not adopting, so that PlaceArrivals
  // can place them.
  void AddSubflows(FlowSlot slot);
  // Puts a subflow on this path. O(hops).
  void Place(FlowSlot slot, std::uint32_t index, std::int32_t path);
  // The subflow has no path any more, and its flow is not on planned paths. O(hops).
  void Remove(FlowSlot slot, std::uint32_t index);
  // As in FlowPaths; the moves are valid until the next call.
  std::span<const FlowPaths::Move> PlaceArrivals(std::span<const SubflowId> subflows,
                                                 const OnlineAssigner::Options& options) {
    return paths_.PlaceArrivals(subflows, options);
  }
  std::span<const FlowPaths::Move> Rebalance(const OnlineAssigner::Options& options) {
    return paths_.Rebalance(options);
  }
  void Take(std::span<const FlowPaths::Move> moves) { paths_.Take(moves); }
  std::vector<FlowSlot> TakeMoved() { return paths_.TakeMoved(); }
  // As in FlowTable.
  std::vector<FlowSlot> TakeNew() { return flows_.TakeNew(); }
  // Which decision has put it on its paths. An operator's is pushed, even if nothing changes by it.
  // O(1).
  void SetOrigin(FlowSlot slot, DecisionOrigin origin);
  // Marks its subflows as in progress, so that moves count against move limits, and pins them
  // unless a chain may move the flow. A parked flow is parked again if some of its subflows have
  // got another path.
  void SetInProgress(FlowSlot slot);
  // Pins its subflows; false: unpins them if a chain may move the flow.
  void Hold(FlowSlot slot, bool holds);

  // Ports. A port has been chosen for each subflow, or is missing for some: kRouted or kLearning.
  void FinishPorts(FlowSlot slot, wire::PathReason reason, bool is_complete);
  // The flow has no path: it loses its ports and is kUnroutable.
  void MarkUnroutable(FlowSlot slot, wire::PathReason reason);
  // The flow is to be placed: kNew. O(1).
  void PlaceAgain(FlowSlot slot) { flows_.SetStatus(slot, FlowStatus::kNew); }

  // Failures. Marks subflows whose ports take dead paths as urgent, and removes unusable paths of
  // all that are not adopting.
  void DropBrokenPaths(FlowSlot slot);
  // Puts a subflow on its backup path. Returns whether the path that its port takes is dead.
  bool TakeBackupPath(FlowSlot slot, std::uint32_t index, std::int32_t path);
  // The flow has taken backup paths. Pushed, unless it is being adopted.
  void FinishFailover(FlowSlot slot, wire::PathReason reason);

  // Bursts. The flow is idle: its load does not count. O(hops).
  void Park(FlowSlot slot);
  // It is not. `is_on_plan`: whether its paths are planned ones. O(hops).
  void Wake(FlowSlot slot, bool is_on_plan);
  void SetOnPlan(FlowSlot slot, bool is_on_plan);
  // Puts it on the planned paths, one for each subflow. O(hops).
  void FollowPlan(FlowSlot slot, std::span<const std::int32_t> paths);
  // The flow acknowledges the one at the other end, which must be known, and is parked.
  void Answer(FlowSlot slot);
  // It does not any more. Returns whether it did. O(1).
  bool StopAnswering(FlowSlot slot);

  // Shares and rates. Divides the flow so (in 1 / kLoadUnit, which they add up to; empty: equally).
  // Its subflows keep their paths. `is_balanced`: whether SplitBalancer has decided that. Pushed.
  void Divide(FlowSlot slot, std::span<const std::int64_t> shares, bool is_balanced);
  // Its program does not send by weights: it is divided equally for good. Pushed.
  void IgnoreWeights(FlowSlot slot);
  // 0: no limit. Pushed. O(1).
  void LimitRate(FlowSlot slot, std::uint64_t max_rate_bps);

 private:
  const fabric::Topology& topology_;
  const fabric::PathTable& path_table_;
  FlowTable& flows_;
  FlowPaths& paths_;
  Connections& connections_;
  PushQueue& pushes_;
  PortDecisions ports_;
};

}  // namespace espalier::controller
