#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "controller/routing/occupancy/occupancy.h"

namespace espalier::controller {

// The paths of flows that come and go: each start is placed such that every leaf's busiest link
// keeps the least load that it can have, and live flows move only where that takes it.
//
// The limit of a leaf's links is what the leaf sends (or receives) over its usable links, evenly,
// rounded up to whole shares. On a 2-layer Clos with equal links whose leaves see the same spines,
// and flows of equal shares, that is the optimum at every leaf at once (de Werra), and a chain of
// moves always reaches it; elsewhere it is a bound that may not be reachable, and a start that
// finds no chain takes the least loaded path.
//
// Cost is proportional to the change: on a 2-layer Clos O(spines) for a start or an end, and
// O(length) for a chain; with more layers O(links between other switches) on top. The view must
// outlive it. After link states have changed: view.Refresh(), then HandleLinkChange().
// Deterministic. Thread safety: one thread.
class OnlineAssigner {
 public:
  using Move = Occupancy::Move;

  // What one call may move of other flows than the one it is about.
  struct Options {
    std::size_t max_moves = 0;  // 0: all others keep their paths
    // Of these, how many that are live, and how many bytes of theirs in flight.
    std::size_t max_in_progress_moves = std::numeric_limits<std::size_t>::max();
    std::int64_t max_moved_bytes = std::numeric_limits<std::int64_t>::max();
    std::int64_t step_budget = 20'000;  // of about 10 ns: paths looked at
  };

  // The bytes in flight are asked for only of ways that might move; not set: none.
  explicit OnlineAssigner(FabricView& view, Occupancy::BytesInFlight bytes_in_flight = nullptr);

  // A flow (or one of its ways) between different leaves, without a path as yet, which is a
  // share of a flow (kLoadUnit: all of it).
  SubflowId Add(std::uint32_t source, std::uint32_t destination, std::int64_t share = kLoadUnit);
  // It ends: its path is free. The leaves' limits may fall by that: Rebalance.
  void Remove(SubflowId subflow);

  // A pinned way is moved by no chain: in the middle of a message, on a port that cannot be
  // changed, or of a tree. At first ways are not pinned.
  void Pin(SubflowId subflow, bool pinned) { occupancy_.Pin(subflow, pinned); }
  // It has begun: moving it costs its bytes in flight. Of several ways on a link, and of several
  // chains of about the least length, the cheapest move. At first ways are not live: they cost
  // less than any that is.
  void SetInProgress(SubflowId subflow) { occupancy_.SetInProgress(subflow); }

  // It is on this path (an index into PathTable::Between), whatever the load; -1: on none.
  void Place(SubflowId subflow, std::int32_t path);

  // Finds it a path and takes it; a path that it is on (one that is lost, or drained) it gives up.
  // The moves in the order in which to make them: others first, each into a place that is free by
  // then, its own last; from = -1 where it had none. None, and all is as it was, where no path is
  // usable, or where it stays on its path. Valid until the next call.
  std::span<const Move> Start(SubflowId subflow, const Options& options);
  // Starts of many ways that have no path, each within the options, which come out better and
  // cheaper than one by one: all count before the first is placed. A way may be moved again for
  // a later one; one without a usable path has no move. Fastest where ways of one source follow
  // each other.
  std::span<const Move> PlaceArrivals(std::span<const SubflowId> subflows, const Options& options);

  // Brings links that are above their limits down (after ends, or links that came back) by moves
  // of ways that are not pinned; options bound the whole. In order; valid until the next call.
  // O(1) where no link is.
  std::span<const Move> Rebalance(const Options& options);

  // Link states have changed. Moves nothing; the ways whose path is not usable any more (those
  // that must move: Start), ascending; valid until the next call. O(links + ways on lost links).
  std::span<const SubflowId> HandleLinkChange();

  std::int32_t PathOf(SubflowId subflow) const { return occupancy_.PathOf(subflow); }
  // No link of its path is above its limit: no start could have done better for it.
  bool IsWithinLimits(SubflowId subflow) const {
    const auto links = occupancy_.LinksOf(subflow);
    return std::none_of(links.begin(), links.end(),
                        [&](std::uint32_t link) { return occupancy_.IsAboveLimit(link); });
  }
  // The switch-to-switch links of its path, directed; it must have one.
  PathLinks LinksOf(SubflowId subflow) const { return occupancy_.LinksOf(subflow); }
  // Those whose path passes this directed link, in no order; valid until the next change.
  std::span<const SubflowId> SubflowsOn(std::uint32_t link) const {
    return occupancy_.SubflowsOn(link);
  }
  // It has a path, and all links of it take new flows.
  bool IsOnUsablePath(SubflowId subflow) const {
    return occupancy_.PathOf(subflow) >= 0 && occupancy_.IsOnUsablePath(subflow);
  }
  // Of the most loaded usable switch-to-switch link. O(links).
  Load MaxLoad() const;
  // Units of 1 / kLoadUnit of a flow on a directed link.
  std::int64_t LoadOf(std::size_t link) const { return occupancy_.LoadOf(link); }
  std::vector<std::int64_t> Loads() const { return occupancy_.Loads(); }  // by link

 private:
  // What a leaf sends (or receives), and what over.
  struct Side {
    std::int64_t limit = 0;  // of each usable link, in units, where they have equal rates
    std::int64_t usable_links = 0;
    std::int64_t capacity_bps = 0;
    bool equal_rates = true;  // of the usable ones
    std::vector<std::uint32_t> links;
  };

  // Apart, as starts look at nothing else: what it carries, and between which bounds that leaves
  // all limits as they are.
  struct alignas(32) SideLoad {
    std::int64_t units = 0;
    std::int64_t least = 0;
    std::int64_t most = -1;
  };

  // The way is on a path from now on, or not any more: its leaves' limits follow.
  void Count(SubflowId subflow, int sign);
  void CountAt(std::size_t side, std::int64_t units);
  void CountAll(std::span<const SubflowId> subflows);  // with runs of one source at once
  std::span<const SubflowId> RunOfOneSource(
      std::span<const SubflowId> subflows) const;  // the first
  void CountShare(std::int64_t share, int sign);
  void CountCapacity(std::size_t side);
  void SetLimits(std::size_t side);
  // Of a link of this capacity, in units: its part of what the side carries, in whole shares.
  std::int64_t LimitOf(std::size_t side, std::int64_t capacity_bps) const;
  void SetAllLimits();
  // Appends to moves_.
  void StartOne(SubflowId subflow, std::int32_t before, const Options& options);
  // Links between other switches than leaves have the highest limit of all leaves.
  void SetInnerLimits();
  void NoteIfFull(std::uint32_t link);

  FabricView& view_;
  Occupancy occupancy_;
  std::vector<Side> sides_;  // leaves as senders, then as receivers
  std::vector<SideLoad> side_loads_;
  std::vector<std::uint32_t> inner_links_;
  std::map<std::int64_t, std::size_t> share_counts_;                    // ways by share
  std::pair<const std::int64_t, std::size_t>* recent_share_ = nullptr;  // an entry, or none
  std::int64_t smallest_share_ = 0;  // of these; 0: there are none
  std::int64_t greatest_share_ = 0;
  std::vector<std::int64_t> capacities_;  // as of the last link change
  std::vector<std::uint32_t> full_;       // may be above their limits; no link that is not in it is
  std::vector<bool> is_in_full_;          // by link
  std::vector<SubflowId> affected_;
  std::vector<Move> moves_;
};

}  // namespace espalier::controller
