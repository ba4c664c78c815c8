#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/load.h"
#include "controller/routing/occupancy/link_table.h"
#include "controller/routing/occupancy/path_search.h"
#include "controller/routing/occupancy/two_spine_chains.h"
#include "controller/routing/occupancy/way_table.h"

namespace espalier::controller {

// Which ways (one path of one flow) are on which links, and chains of moves among them: a way
// moves to another path, which pushes a way off the one link that is too full for it, which moves
// to another path, ... until one fits. Every link has its own limit.
//
// In a 2-layer Clos with equal links chains are first looked for along two spines
// (TwoSpineChains), where that fails, and elsewhere, over all paths (PathSearch). What is where is
// in WayTable and LinkTable. A start takes 0.1 us where a spine is idle at both its leaves, and 0.4
// to 0.9 us at the median where nine of ten need a chain (assignment_bench flows).
//
// Loads are in units of 1 / kLoadUnit of a flow. The view must outlive it, and may be refreshed
// at any time. Thread safety: one thread.
class Occupancy {
 public:
  using Way = WayId;  // dense, reused after Remove
  using Move = WayMove;
  using MoveBudget = controller::MoveBudget;
  using BytesInFlight = controller::BytesInFlight;
  using Bound = LinkTable::Bound;

  explicit Occupancy(const FabricView& view, BytesInFlight bytes_in_flight = nullptr)
      : view_(view),
        ways_(view, std::move(bytes_in_flight)),
        links_(view, ways_),
        chains_(view, ways_, links_),
        search_(ways_, links_) {
    Clear();
  }
  // (Its parts know each other's addresses.)
  Occupancy(const Occupancy&) = delete;
  Occupancy& operator=(const Occupancy&) = delete;

  // Forgets all ways; the view may have changed.
  void Clear();

  // A way between two leaves, at first without a path. `pinned`: chains never move it.
  Way Add(std::uint32_t source, std::uint32_t destination, std::int64_t share, bool pinned) {
    return ways_.Add(source, destination, share, pinned);
  }
  void Remove(Way way) {
    links_.MoveTo(way, kNoPath);
    ways_.Remove(way);
  }
  // Puts it on a path (an index as in FabricView::Candidates), or on none (kNoPath).
  void Place(Way way, std::int32_t path) { links_.MoveTo(way, ways_.ToRoute(ways_[way], path)); }
  void Pin(Way way, bool pinned) { ways_[way].pinned = pinned; }
  // It has begun: moving it costs its bytes in flight. Of the first few ways on a link a chain
  // takes the cheapest, one that is not live first; of several chains, the cheapest of about the
  // least length.
  void SetLive(Way way) { ways_[way].live = true; }
  // What it puts on each link of its path from now on.
  void SetShare(Way way, std::int64_t share) { links_.SetShare(way, share); }

  bool HasPath(Way way) const { return ways_[way].route >= 0; }
  std::int32_t PathOf(Way way) const { return ways_.ToPath(ways_[way], ways_[way].route); }
  std::uint32_t SourceOf(Way way) const { return ways_[way].source; }
  std::uint32_t DestinationOf(Way way) const { return ways_[way].destination; }
  std::int64_t ShareOf(Way way) const { return ways_[way].share; }
  // What moving it takes off a budget.
  void Charge(Way way, MoveBudget& budget) const { ways_.Charge(way, budget); }
  // All links of its path are usable now; it must have one.
  bool IsOnUsablePath(Way way) const { return ways_.IsUsable(ways_[way], ways_[way].route); }
  // The links of its path; it must have one.
  PathLinks LinksOf(Way way) const { return ways_.LinksOf(ways_[way], ways_[way].route); }
  std::size_t link_count() const { return links_.size(); }
  std::int64_t LoadOf(std::size_t link) const { return links_.LoadOf(link); }
  std::vector<std::int64_t> Loads() const { return links_.Loads(); }  // by link
  // Ascending; valid until the next change.
  std::span<const Way> WaysOn(std::uint32_t link) const { return links_.WaysOn(link); }

  // The usable path whose busiest link would carry least with this way on it, relative to its
  // capacity; the lowest index among equals; kNoPath if no path is usable.
  std::int32_t LeastLoadedPath(Way way) const;

  // Chains bring no link above this load, or none up to it.
  void SetLimit(const Load& load, Bound bound) { links_.SetLimits(load, bound); }
  // One link's, in units.
  void SetLinkLimit(std::uint32_t link, std::int64_t units) { links_.SetLimit(link, units); }
  bool IsAboveLimit(std::uint32_t link) const { return links_.IsAboveLimit(link); }

  // Finds a path for a way that has none, with moves of others, such that no link that the chain
  // touches is above its limit (unless it was). Or takes one way off a link and places it
  // elsewhere. The moves are made, and returned in order (valid until the next call); none if
  // there is no such chain within `steps` (candidate paths looked at; what is used is taken off).
  std::span<const Move> Insert(Way way, const MoveBudget& budget, std::int64_t& steps);
  std::span<const Move> Relieve(std::uint32_t link, const MoveBudget& budget, std::int64_t& steps);
  // Finds paths for ways of one source that have none, each over two links of a Clos that carry
  // nothing; the others stay without. (Limits are for links with several ways.) The moves, as
  // above.
  std::span<const Move> InsertIdle(std::span<const Way> ways);

 private:
  // Appends moves by route to moves_, as moves by path.
  void Tell(std::span<const Move> moves);

  const FabricView& view_;
  WayTable ways_;
  LinkTable links_;
  TwoSpineChains chains_;
  PathSearch search_;
  std::vector<Move> moves_;
};

}  // namespace espalier::controller
