#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/fabric/path_map.h"
#include "controller/paths/port_chooser.h"
#include "controller/prediction/start_assignment.h"
#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/online_assigner.h"
#include "controller/state/flow_table.h"

namespace espalier::controller {

// Where flows are: the one owner of the paths that subflows (Subflow) and reservations have, of
// whose they are, and of the source ports in use. Nobody else changes any of these.
//
// Invariants (CheckInvariants): a subflow with a place in OnlineAssigner is named there as its
// owner; a reservation has a load and is one way; the fingerprint is the sum of PathFingerprint
// over all subflows and reservations that have a path; the loads of links are the sums of the
// shares on them; `pairs` holds exactly the flows registered.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class FlowPaths {
 public:
  using Move = OnlineAssigner::Move;

  FlowPaths(FabricView& view, FlowTable& flows);

  // Subflows. A subflow has a place from Add to Remove, and on that place a path, or none yet.
  // The flow's leaves are known, and it has as many ways as it will have.
  void Add(FlowSlot slot, std::uint32_t index);
  void Place(const Subflow& subflow, std::int32_t path);
  void Remove(Subflow& subflow);
  // From now on the flow's subflows count as live when others need room; a flow that cannot be
  // moved stays where it is.
  void SetInProgress(const Flow& flow);
  // Whether others' chains may move it; false: as far as the flow itself can be moved.
  void Hold(const Flow& flow, bool holds);
  // OnlineAssigner::PlaceArrivals and Rebalance, with all moves noted. Valid until the next call.
  std::span<const Move> PlaceArrivals(std::span<const SubflowId> subflows,
                                      const OnlineAssigner::Options& options);
  std::span<const Move> Rebalance(const OnlineAssigner::Options& options);
  // Moves that were planned before.
  void Take(std::span<const Move> moves);
  // What these starts would be assigned now (PlanStarts): tries it, and takes all back.
  StartAssignment TryStarts(std::span<const PredictedStart> starts,
                            std::span<const SubflowId> ending,
                            const OnlineAssigner::Options& options) {
    return PlanStarts(live_, starts, ending, options);
  }
  // Link states have changed (the view has been told): OnlineAssigner::HandleLinkChange.
  std::span<const SubflowId> HandleLinkChange() { return live_.HandleLinkChange(); }

  // Reservations: load on a path that no chain moves and no agent reports, in 1 / kLoadUnit of a
  // flow.
  SubflowId Reserve(fabric::NodeId source_leaf, fabric::NodeId destination_leaf, std::int32_t path,
                    std::int64_t load);
  void Unreserve(SubflowId subflow);

  // Source ports. False where the port is taken, and nothing is changed.
  bool TakePort(const fabric::PortKey& key, std::uint16_t port) { return ports_.Take(key, port); }
  void ReleasePort(const fabric::PortKey& key, std::uint16_t port) { ports_.Release(key, port); }
  bool ExchangePort(const fabric::PortKey& key, std::uint16_t from, std::uint16_t to) {
    return ports_.Exchange(key, from, to);
  }
  const PortsInUse& ports() const { return ports_; }

  // The flows between different switches, by the key of their ports: few each.
  void Register(FlowSlot slot);
  void Unregister(FlowSlot slot);
  using Pairs = std::unordered_map<fabric::PortKey, std::vector<FlowSlot>>;
  const Pairs& pairs() const { return pairs_; }

  // Whose a way is. A reservation's owner is no flow.
  struct Owner {
    std::optional<FlowSlot> slot;
    std::uint32_t index = 0;  // into Flow::ways
  };
  const Owner& OwnerOf(SubflowId subflow) const { return owners_[subflow.Index()].owner; }
  // Of a way that is a flow's.
  FlowSlot FlowOf(SubflowId subflow) const { return *owners_[subflow.Index()].owner.slot; }
  std::size_t owner_count() const { return owners_.size(); }  // of ways that are or were
  std::optional<fabric::PathIndex> PathOf(const Subflow& subflow) const {
    if (!subflow.subflow || live_.PathOf(*subflow.subflow) < 0) return std::nullopt;
    return fabric::PathIndex(live_.PathOf(*subflow.subflow));
  }
  const OnlineAssigner& live() const { return live_; }
  // Grows whenever any way takes, changes or leaves its path.
  std::uint64_t changes() const { return changes_; }
  // Sum of PathFingerprint over all ways that have a path.
  std::uint64_t fingerprint() const { return fingerprint_; }
  std::uint64_t FingerprintOf(const Flow& flow, std::int32_t path) const;

  // Aborts where an invariant does not hold. O(flows + links): for tests.
  void CheckInvariants() const;

 private:
  struct Entry {
    Owner owner;
    std::uint32_t source = 0;  // leaves, as the view numbers them
    std::uint32_t destination = 0;
    std::uint32_t subflows = 1;  // of the flow
    std::int64_t load = 0;       // on each link of its path
  };

  Entry& NewEntry(SubflowId subflow);
  std::int64_t BytesInFlight(SubflowId subflow) const;
  std::uint64_t FingerprintOf(SubflowId subflow, std::int32_t path) const;
  // A way was on the path `from` (kNoPath: on none) and is on `to` from now on.
  void Note(SubflowId subflow, std::int32_t from, std::int32_t to);

  FabricView& view_;
  FlowTable& flows_;
  OnlineAssigner live_;
  std::vector<Entry> owners_;  // by way
  std::uint64_t changes_ = 0;
  std::uint64_t fingerprint_ = 0;
  PortsInUse ports_;
  Pairs pairs_;
};

}  // namespace espalier::controller
