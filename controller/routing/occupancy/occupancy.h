#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/load.h"
#include "controller/routing/occupancy/kempe_chains.h"
#include "controller/routing/occupancy/link_table.h"
#include "controller/routing/occupancy/path_search.h"
#include "controller/routing/occupancy/subflow_table.h"

namespace espalier::controller {

// Which ways (one path of one flow) are on which links, and chains of moves among them: a way
// moves to another path, which pushes a way off the one link that is too full for it, which moves
// to another path, ... until one fits. Every link has its own limit.
//
// In a 2-layer Clos with equal links chains are first looked for along two spines
// (KempeChains), where that fails, and elsewhere, over all paths (PathSearch). What is where is
// in SubflowTable and LinkTable. A start takes 0.1 us where a spine is idle at both its leaves, and
// 0.4 to 0.9 us at the median where nine of ten need a chain (assignment_bench flows).
//
// Loads are in units of 1 / kLoadUnit of a flow. The view must outlive it, and may be refreshed
// at any time. Thread safety: one thread.
class Occupancy {
 public:
  using Move = SubflowMove;
  using MoveBudget = controller::MoveBudget;
  using BytesInFlight = controller::BytesInFlight;
  using Bound = LinkTable::Bound;

  explicit Occupancy(const FabricView& view, BytesInFlight bytes_in_flight = nullptr)
      : view_(view),
        subflows_(view, std::move(bytes_in_flight)),
        links_(view, subflows_),
        chains_(view, subflows_, links_),
        search_(subflows_, links_) {
    Clear();
  }
  // (Its parts know each other's addresses.)
  Occupancy(const Occupancy&) = delete;
  Occupancy& operator=(const Occupancy&) = delete;

  // Forgets all ways; the view may have changed.
  void Clear();

  // A way between two leaves, at first without a path. `pinned`: chains never move it.
  SubflowId Add(std::uint32_t source, std::uint32_t destination, std::int64_t share, bool pinned) {
    return subflows_.Add(source, destination, share, pinned);
  }
  void Remove(SubflowId subflow) {
    links_.MoveTo(subflow, kNoPath);
    subflows_.Remove(subflow);
  }
  // Puts it on a path (an index as in FabricView::Candidates), or on none (kNoPath).
  void Place(SubflowId subflow, std::int32_t path) {
    links_.MoveTo(subflow, subflows_.ToRoute(subflows_[subflow], path));
  }
  void Pin(SubflowId subflow, bool pinned) { subflows_[subflow].pinned = pinned; }
  // It has begun: moving it costs its bytes in flight. Of the first few ways on a link a chain
  // takes the cheapest, one that is not live first; of several chains, the cheapest of about the
  // least length.
  void SetInProgress(SubflowId subflow) { subflows_[subflow].live = true; }
  // What it puts on each link of its path from now on.
  void SetShare(SubflowId subflow, std::int64_t share) { links_.SetShare(subflow, share); }

  bool HasPath(SubflowId subflow) const { return subflows_[subflow].route >= 0; }
  std::int32_t PathOf(SubflowId subflow) const {
    return subflows_.ToPath(subflows_[subflow], subflows_[subflow].route);
  }
  std::uint32_t SourceOf(SubflowId subflow) const { return subflows_[subflow].source; }
  std::uint32_t DestinationOf(SubflowId subflow) const { return subflows_[subflow].destination; }
  std::int64_t ShareOf(SubflowId subflow) const { return subflows_[subflow].share; }
  // What moving it takes off a budget.
  void Charge(SubflowId subflow, MoveBudget& budget) const { subflows_.Charge(subflow, budget); }
  // All links of its path are usable now; it must have one.
  bool IsOnUsablePath(SubflowId subflow) const {
    return subflows_.IsUsable(subflows_[subflow], subflows_[subflow].route);
  }
  // The links of its path; it must have one.
  PathLinks LinksOf(SubflowId subflow) const {
    return subflows_.LinksOf(subflows_[subflow], subflows_[subflow].route);
  }
  std::size_t link_count() const { return links_.size(); }
  std::int64_t LoadOf(std::size_t link) const { return links_.LoadOf(link); }
  std::vector<std::int64_t> Loads() const { return links_.Loads(); }  // by link
  // Ascending; valid until the next change.
  std::span<const SubflowId> SubflowsOn(std::uint32_t link) const {
    return links_.SubflowsOn(link);
  }

  // The usable path whose busiest link would carry least with this way on it, relative to its
  // capacity; the lowest index among equals; kNoPath if no path is usable.
  std::int32_t LeastLoadedPath(SubflowId subflow) const;

  // Chains bring no link above this load, or none up to it.
  void SetLimit(const Load& load, Bound bound) { links_.SetLimits(load, bound); }
  // One link's, in units.
  void SetLinkLimit(std::uint32_t link, std::int64_t units) { links_.SetLimit(link, units); }
  bool IsAboveLimit(std::uint32_t link) const { return links_.IsAboveLimit(link); }

  // Finds a path for a way that has none, with moves of others, such that no link that the chain
  // touches is above its limit (unless it was). Or takes one way off a link and places it
  // elsewhere. The moves are made, and returned in order (valid until the next call); none if
  // there is no such chain within `steps` (candidate paths looked at; what is used is taken off).
  std::span<const Move> Insert(SubflowId subflow, const MoveBudget& budget, std::int64_t& steps);
  std::span<const Move> Relieve(std::uint32_t link, const MoveBudget& budget, std::int64_t& steps);
  // Finds paths for ways of one source that have none, each over two links of a Clos that carry
  // nothing; the others stay without. (Limits are for links with several ways.) The moves, as
  // above.
  std::span<const Move> InsertIdle(std::span<const SubflowId> subflows);

 private:
  // Appends moves by route to moves_, as moves by path.
  void Tell(std::span<const Move> moves);

  const FabricView& view_;
  SubflowTable subflows_;
  LinkTable links_;
  KempeChains chains_;
  PathSearch search_;
  std::vector<Move> moves_;
};

}  // namespace espalier::controller
