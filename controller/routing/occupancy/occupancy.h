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
#include "controller/routing/occupancy/tier_chains.h"

namespace espalier::controller {

// Keeps which subflows use which links, and finds chains of moves: a subflow moves to another path
// and displaces a subflow on the one link that is too full for it, which moves to another path in
// turn, until one fits. Every link has a limit of its own.
//
// In a 2-tier Clos with equal links, KempeChains are tried first, in a folded Clos of more tiers
// TierChains; if these fail, and in other fabrics, PathSearch tries all paths. SubflowTable and
// LinkTable hold the state. An arrival takes 0.1 us if a spine is idle at both its leaves, and 0.4
// to 0.9 us at the median if nine of ten need a chain (assignment_bench flows).
//
// Loads are in units of 1 / kLoadUnit of a flow. The view must outlive it, and may be refreshed at
// any time. Thread safety: one thread.
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
        tier_chains_(view, subflows_, links_),
        search_(subflows_, links_) {
    Clear();
  }
  // Its parts refer to each other.
  Occupancy(const Occupancy&) = delete;
  Occupancy& operator=(const Occupancy&) = delete;

  // Removes all subflows and base loads; the view may have changed.
  void Clear();

  // Adds a subflow between two leaves, without a path. `pinned`: chains never move it.
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
  // Marks it as in progress, so that moving it costs its bytes in flight. Of the first few subflows
  // on a link, a chain takes the cheapest; those not in progress are cheapest. Of several chains of
  // about the least length, the cheapest wins.
  void SetInProgress(SubflowId subflow) { subflows_[subflow].in_progress = true; }
  // Sets its load on each link of its path.
  void SetShare(SubflowId subflow, std::int64_t share) { links_.SetShare(subflow, share); }

  bool HasPath(SubflowId subflow) const { return subflows_[subflow].route >= 0; }
  std::int32_t PathOf(SubflowId subflow) const {
    return subflows_.ToPath(subflows_[subflow], subflows_[subflow].route);
  }
  std::uint32_t SourceOf(SubflowId subflow) const { return subflows_[subflow].source; }
  std::uint32_t DestinationOf(SubflowId subflow) const { return subflows_[subflow].destination; }
  std::int64_t ShareOf(SubflowId subflow) const { return subflows_[subflow].share; }
  // Takes the cost of moving it off a budget.
  void Charge(SubflowId subflow, MoveBudget& budget) const { subflows_.Charge(subflow, budget); }
  // Whether all links of its path are usable; it must have one.
  bool IsOnUsablePath(SubflowId subflow) const {
    return subflows_.IsUsable(subflows_[subflow], subflows_[subflow].route);
  }
  // The links of its path; it must have one.
  PathLinks LinksOf(SubflowId subflow) const {
    return subflows_.LinksOf(subflows_[subflow], subflows_[subflow].route);
  }
  // Sets the loads that no subflow causes, by link in units; empty: none. O(links).
  void SetBaseLoads(std::span<const std::int64_t> units) { links_.SetBaseLoads(units); }
  std::span<const std::int64_t> base_loads() const { return links_.base_loads(); }
  std::int64_t BaseOf(std::uint32_t link) const { return links_.BaseOf(link); }
  std::size_t link_count() const { return links_.size(); }
  std::int64_t LoadOf(std::size_t link) const { return links_.LoadOf(link); }
  std::vector<std::int64_t> Loads() const { return links_.Loads(); }  // by link
  // Ascending; valid until the next change.
  std::span<const SubflowId> SubflowsOn(std::uint32_t link) const {
    return links_.SubflowsOn(link);
  }

  // The usable path whose busiest link, with this subflow on it, would carry least relative to its
  // capacity; the lowest index among equals; kNoPath if no path is usable.
  std::int32_t LeastLoadedPath(SubflowId subflow) const;

  // Sets the limit of all links: at most this load, or below it, and never below the base load.
  void SetLimit(const Load& load, Bound bound) { links_.SetLimits(load, bound); }
  // Sets the limit of one link, in units.
  void SetLinkLimit(std::uint32_t link, std::int64_t units) { links_.SetLimit(link, units); }
  bool IsAboveLimit(std::uint32_t link) const { return links_.IsAboveLimit(link); }

  // Insert places a subflow without a path, Relieve moves one subflow off a link. Either may move
  // others; no link that a chain touches ends above its limit unless it was. The moves are made and
  // returned in the order of the chain: the last was made first (valid until the next call); none
  // if there is no such chain within `steps` (candidate paths considered; reduced by what is used).
  std::span<const Move> Insert(SubflowId subflow, const MoveBudget& budget, std::int64_t& steps);
  std::span<const Move> Relieve(std::uint32_t link, const MoveBudget& budget, std::int64_t& steps);
  // Places subflows of one source that have no path on idle spines of a Clos. Subflows without an
  // idle spine stay as they are. Limits are not checked, as a single subflow is within any. Returns
  // the moves made.
  std::span<const Move> InsertIdle(std::span<const SubflowId> subflows);

 private:
  // How many of these steps PathSearch may take.
  std::int64_t StepsOfSearch(std::int64_t steps) const;
  // Appends moves by route to moves_, as moves by path.
  void AppendMoves(std::span<const Move> moves);

  const FabricView& view_;
  SubflowTable subflows_;
  LinkTable links_;
  KempeChains chains_;
  TierChains tier_chains_;
  PathSearch search_;
  std::vector<Move> moves_;
};

}  // namespace espalier::controller
