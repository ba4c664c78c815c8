#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/fabric/ecmp/path_map.h"
#include "controller/paths/port_chooser.h"
#include "controller/prediction/start_assignment.h"
#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/model/assignment.h"
#include "controller/routing/online/online_assigner.h"
#include "controller/state/flows/flow_table.h"

namespace espalier::controller {

// Owns the paths of subflows (Subflow) and reservations, the mapping from each path's id to its
// owner, and the source ports in use. No other class changes these.
//
// A subflow of an idle flow can be parked: it keeps its path and its port, but adds no load to the
// links of the path, and no chain of moves touches it.
//
// Invariants (CheckInvariants): a subflow that has a path id is recorded as that id's owner; a
// reservation has a load and is a single subflow; a parked subflow has a path, but none in
// OnlineAssigner; the fingerprint is the sum of PathFingerprint over all subflows and reservations
// that have a path and are not parked, and a digest of the base loads; the loads of links are their
// base loads and the sums of the shares of these; `pairs` holds exactly the registered flows.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class FlowPaths {
 public:
  using Move = OnlineAssigner::Move;

  FlowPaths(FabricView& view, const FlowTable& flows);

  // Subflows: FlowDecisions calls these and records their ids. A subflow has an id in
  // OnlineAssigner from Add to Remove, with a path or with none yet. Add requires that the flow's
  // leaves are known and that its number of subflows is final.
  SubflowId Add(FlowSlot slot, std::uint32_t index);
  void Place(SubflowId subflow, std::int32_t path);
  // Its part of the flow, in 1 / kLoadUnit. It keeps its path.
  void SetShare(SubflowId subflow, std::int64_t share);
  void Remove(SubflowId subflow);
  // Marks the subflow as in progress, so that moves of it count against move limits. One that is
  // pinned does not move.
  void SetInProgress(SubflowId subflow, bool is_pinned);
  void Pin(SubflowId subflow, bool is_pinned) { assigner_.Pin(subflow, is_pinned); }
  // Parks the subflows that have a path, or takes their load back on the links of these paths,
  // whatever load that makes. O(hops).
  void Park(const Flow& flow);
  void Wake(const Flow& flow);
  // The flows of known connections whose subflows were given other paths since the last call,
  // without those that were parked or woken on the paths that they had. A flow may occur twice, and
  // may have been closed since.
  std::vector<FlowSlot> TakeMoved() { return std::exchange(moved_, {}); }
  bool IsParked(SubflowId subflow) const { return owners_[subflow.Index()].parked != kNoPath; }
  bool IsParked(const Subflow& subflow) const { return subflow.id && IsParked(*subflow.id); }
  // As in OnlineAssigner. The moves are valid until the next call.
  std::span<const Move> PlaceArrivals(std::span<const SubflowId> subflows,
                                      const OnlineAssigner::Options& options);
  std::span<const Move> Rebalance(const OnlineAssigner::Options& options);
  // Applies precomputed moves.
  void Take(std::span<const Move> moves);
  // Returns what `search` finds by trying moves; it must leave all paths as they are.
  template <typename Search>
  auto Try(const Search& search) {
    return search(assigner_);
  }
  // To be called after link states have changed in the view: OnlineAssigner::HandleLinkChange.
  std::span<const SubflowId> HandleLinkChange() { return assigner_.HandleLinkChange(); }

  // Reservations: load on a path that nothing moves and no agent reports, in 1 / kLoadUnit of a
  // flow.
  SubflowId Reserve(fabric::NodeId source_leaf, fabric::NodeId destination_leaf, std::int32_t path,
                    std::int64_t load);
  void Unreserve(SubflowId subflow);

  // Background traffic: OnlineAssigner::SetBaseLoads. Counts as a change of paths, also in the
  // fingerprint.
  void SetBaseLoads(std::span<const std::int64_t> units);

  // Source ports. False, without any change, if the port is taken.
  bool TakePort(const fabric::PortKey& key, std::uint16_t port) { return ports_.Take(key, port); }
  void ReleasePort(const fabric::PortKey& key, std::uint16_t port) { ports_.Release(key, port); }
  bool ExchangePort(const fabric::PortKey& key, std::uint16_t from, std::uint16_t to) {
    return ports_.Exchange(key, from, to);
  }
  const PortsInUse& ports() const { return ports_; }

  // The flows between different leaves by the key of their ports; few flows share a key.
  void Register(FlowSlot slot);
  void Unregister(FlowSlot slot);
  using Pairs = std::unordered_map<fabric::PortKey, std::vector<FlowSlot>>;
  const Pairs& pairs() const { return pairs_; }

  // The owner of a path id.
  struct Owner {
    std::optional<FlowSlot> slot;  // none: a reservation
    std::uint32_t index = 0;       // into Flow::subflows
  };
  const Owner& OwnerOf(SubflowId subflow) const { return owners_[subflow.Index()].owner; }
  // The id must belong to a flow.
  FlowSlot FlowOf(SubflowId subflow) const { return *owners_[subflow.Index()].owner.slot; }
  std::size_t owner_count() const { return owners_.size(); }  // ids ever in use
  // The path of a subflow, parked or not.
  std::optional<fabric::PathIndex> PathOf(const Subflow& subflow) const {
    if (!subflow.id || PathOf(*subflow.id) < 0) return std::nullopt;
    return fabric::PathIndex(PathOf(*subflow.id));
  }
  std::int32_t PathOf(SubflowId subflow) const {  // kNoPath: none
    const std::int32_t parked = owners_[subflow.Index()].parked;
    return parked != kNoPath ? parked : assigner_.PathOf(subflow);
  }
  // Whether the subflow has a path, all of whose links take new flows.
  bool IsOnUsablePath(const Subflow& subflow) const;
  const OnlineAssigner& assigner() const { return assigner_; }
  // The load of a directed link if all parked subflows were busy.
  std::int64_t LoadIfAllAreBusy(std::size_t link) const {
    return assigner_.LoadOf(link) + parked_loads_[link];
  }
  // Grows whenever a subflow or reservation takes, changes or leaves its path, or is parked or
  // woken.
  std::uint64_t changes() const { return changes_; }
  // The same without parking and waking, which happen much more often.
  std::uint64_t path_changes() const { return path_changes_; }
  // Sum of PathFingerprint over all subflows and reservations that have a path, and a digest of the
  // base loads.
  std::uint64_t fingerprint() const { return fingerprint_; }

  // Aborts if an invariant does not hold. O(flows + links): for tests.
  void CheckInvariants() const;

 private:
  struct Entry {
    Owner owner;
    std::uint32_t source = 0;  // leaves, as the view numbers them
    std::uint32_t destination = 0;
    std::int64_t load = 0;          // on each link of its path, in 1 / kLoadUnit of a flow
    std::int32_t parked = kNoPath;  // the path on which it is parked; kNoPath: it is not

    std::uint64_t FingerprintOn(std::int32_t path) const {
      return PathFingerprint(source, destination, path, load);
    }
  };

  // Accounts for moves that OnlineAssigner has made.
  void NoteMoves(std::span<const Move> moves);
  // Accounts for a subflow that changes from the path `from` to `to` (kNoPath: none).
  void Note(SubflowId subflow, std::int32_t from, std::int32_t to);

  FabricView& view_;
  const FlowTable& flows_;
  OnlineAssigner assigner_;
  std::vector<Entry> owners_;  // by SubflowId
  std::vector<FlowSlot> moved_;
  std::vector<std::int64_t> parked_loads_;  // by directed link
  std::vector<std::uint32_t> hops_;         // of one path, to allocate them once
  std::uint64_t changes_ = 0;
  std::uint64_t path_changes_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::uint64_t base_digest_ = 0;  // 0: no base loads
  PortsInUse ports_;
  Pairs pairs_;
};

// What the subflow of a flow adds to the fingerprint on this path.
inline std::uint64_t FingerprintOf(const FabricView& view, const Flow& flow, const Subflow& subflow,
                                   std::int32_t path) {
  return PathFingerprint(*view.LeafOf(flow.source_leaf), *view.LeafOf(flow.destination_leaf), path,
                         ShareOf(flow, subflow));
}

// Whether the subflow has a path, none of whose links is above its even share.
inline bool IsWithinLimits(const FlowPaths& paths, const Subflow& subflow) {
  return paths.PathOf(subflow) &&
         (paths.IsParked(subflow) || paths.assigner().IsWithinLimits(*subflow.id));
}

}  // namespace espalier::controller
