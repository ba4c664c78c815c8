#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "controller/routing/occupancy/occupancy.h"
#include "controller/routing/online/narrow_blocks.h"

namespace espalier::controller {

// Assigns paths to flows as they arrive and depart (online assignment). Each arrival is placed so
// that no link of its leaves exceeds its even share; flows in progress move only if this needs it.
//
// The even share of a leaf's links is what the leaf sends (or receives), spread evenly over its
// usable links and rounded up to whole shares of flows. On a 2-tier Clos with equal links whose
// leaves reach the same spines, and with flows of equal shares, it is the optimum at every leaf at
// once (de Werra 1971), and a Kempe chain always reaches it. In a folded Clos that is not narrower
// upwards, chains on every tier reach it (TierChains). Where pods are narrower upwards, the links
// between other switches get the even share of the busiest pod (NarrowBlocks). Elsewhere it may be
// out of reach; an arrival that finds no chain takes the least loaded path.
//
// Links may carry a base load, which no subflow causes (SetBaseLoads). The even share of a leaf's
// links is then the level up to which they are filled if the leaf's flows are spread over what the
// base loads leave, as water fills an uneven vessel. A link that its base load fills takes no flow.
//
// The cost is proportional to the change: on a 2-tier Clos O(spines) for an arrival or departure
// and O(length) for a chain; with more tiers O(links between other switches) in addition when the
// highest even share of all leaves changes. The view must outlive it. After link states have
// changed, call view.Refresh(), then HandleLinkChange().
// Deterministic. Thread safety: one thread.
class OnlineAssigner {
 public:
  using Move = Occupancy::Move;

  // Limits on what one call may move, apart from the subflows that it places.
  struct Options {
    std::size_t max_moves = 0;  // 0: all others keep their paths
    // Of these, how many subflows in progress, and how many of their in-flight bytes.
    std::size_t max_in_progress_moves = std::numeric_limits<std::size_t>::max();
    std::int64_t max_moved_bytes = std::numeric_limits<std::int64_t>::max();
    std::int64_t step_budget = 20'000;  // candidate paths considered, about 10 ns each
    // Of all subflows of one call of PlaceArrivals together; the rest then gets the least loaded
    // paths.
    std::int64_t steps_of_all = 1'000'000;
  };

  // `bytes_in_flight` is called only for subflows that might move; not set: 0 for all.
  explicit OnlineAssigner(FabricView& view, Occupancy::BytesInFlight bytes_in_flight = nullptr);

  // Adds a subflow between different leaves, without a path. `share`: its part of a flow, in 1 /
  // kLoadUnit.
  SubflowId Add(std::uint32_t source, std::uint32_t destination, std::int64_t share = kLoadUnit);
  // Changes a subflow's part of its flow; it keeps its path, at any load.
  void SetShare(SubflowId subflow, std::int64_t share);
  // Removes a subflow and frees its path. The even shares may fall, so Rebalance may have work.
  void Remove(SubflowId subflow);

  // Chains never move a pinned subflow: one in the middle of a message, on a port that cannot be
  // changed, or a reservation. New subflows are not pinned.
  void Pin(SubflowId subflow, bool pinned) { occupancy_.Pin(subflow, pinned); }
  // Marks a subflow as in progress, so that moving it costs its bytes in flight. Moving one that is
  // not in progress costs less than any other. Of several subflows on a link, and of several chains
  // of about the least length, the cheapest moves.
  void SetInProgress(SubflowId subflow) { occupancy_.SetInProgress(subflow); }

  // Puts a subflow on this path (an index into PathTable::Between) at any load; -1: on none.
  void Place(SubflowId subflow, std::int32_t path);

  // Finds a path for a subflow and puts it there. It leaves the path that it may be on (a lost or
  // drained one). Returns the moves in the order in which to make them: those of others, each to a
  // link that is free by then, and its own last (from = -1: it had none). Empty, without any
  // change, if no path is usable or it stays on its path. Valid until the next call.
  std::span<const Move> Start(SubflowId subflow, const Options& options);
  // Places many subflows without a path; the options apply to each. The result is better and the
  // cost lower than one at a time, as all count towards the even shares before the first is placed.
  // A subflow may move again for a later one; one without a usable path has no move. Fastest if
  // subflows of one source are adjacent.
  std::span<const Move> PlaceArrivals(std::span<const SubflowId> subflows, const Options& options);

  // Relieves links above their even share (after departures, or when links return), by moves of
  // subflows that are not pinned. The options apply to the whole call. Moves in order; valid until
  // the next call. O(1) if no link is above its even share.
  std::span<const Move> Rebalance(const Options& options);

  // Sets the loads of links that no subflow causes, such as background traffic: by directed link,
  // in 1 / kLoadUnit of a flow (>= 0); empty: none. Moves nothing, but Rebalance may have work.
  // O(links).
  void SetBaseLoads(std::span<const std::int64_t> units);
  std::span<const std::int64_t> base_loads() const { return occupancy_.base_loads(); }

  // Takes changed link states. Moves nothing; returns the subflows whose path has become unusable
  // and that need Start, ascending; valid until the next call. O(links + subflows on lost links).
  std::span<const SubflowId> HandleLinkChange();

  std::int32_t PathOf(SubflowId subflow) const { return occupancy_.PathOf(subflow); }
  std::uint32_t SourceOf(SubflowId subflow) const { return occupancy_.SourceOf(subflow); }
  std::uint32_t DestinationOf(SubflowId subflow) const { return occupancy_.DestinationOf(subflow); }
  // Whether no link of its path is above its even share: no placing could be better for it.
  bool IsWithinLimits(SubflowId subflow) const {
    const auto links = occupancy_.LinksOf(subflow);
    return std::none_of(links.begin(), links.end(),
                        [&](std::uint32_t link) { return occupancy_.IsAboveLimit(link); });
  }
  // The directed switch-to-switch links of its path; it must have one.
  PathLinks LinksOf(SubflowId subflow) const { return occupancy_.LinksOf(subflow); }
  // The subflows on this directed link, in no order; valid until the next change.
  std::span<const SubflowId> SubflowsOn(std::uint32_t link) const {
    return occupancy_.SubflowsOn(link);
  }
  // Whether it has a path whose links all take new flows.
  bool IsOnUsablePath(SubflowId subflow) const {
    return occupancy_.PathOf(subflow) >= 0 && occupancy_.IsOnUsablePath(subflow);
  }
  // The load of the most loaded usable switch-to-switch link. O(links).
  Load MaxLoad() const;
  // Units of 1 / kLoadUnit of a flow on a directed link.
  std::int64_t LoadOf(std::size_t link) const { return occupancy_.LoadOf(link); }
  std::vector<std::int64_t> Loads() const { return occupancy_.Loads(); }  // by link

 private:
  // The links over which a leaf sends, or receives, and their even share.
  struct Side {
    // Even share of each usable link, in units, if rates are equal; with base loads, that of a link
    // of the fastest rate.
    std::int64_t limit = 0;
    std::int64_t fastest_bps = 0;  // of the usable links, if one has a base load
    std::int64_t usable_links = 0;
    std::int64_t capacity_bps = 0;
    bool equal_rates = true;  // of the usable links
    bool has_base = false;    // one of the usable links has a base load
    std::vector<std::uint32_t> links;
  };

  // The load of a side, and the bounds within which it leaves the even share unchanged. It is
  // separate from Side because most arrivals read nothing else.
  struct alignas(32) SideLoad {
    std::int64_t units = 0;
    std::int64_t least = 0;
    std::int64_t most = -1;
  };

  // Adds the subflow's share to its two sides (sign 1) or takes it off (-1), and updates limits.
  void Count(SubflowId subflow, int sign);
  void CountAt(std::size_t side, std::int64_t units);
  void CountAtBlocks(SubflowId subflow, std::int64_t units);
  void CountAll(std::span<const SubflowId> subflows);  // each run of one source at once
  // The longest prefix of subflows that have the same source.
  std::span<const SubflowId> RunOfOneSource(std::span<const SubflowId> subflows) const;
  void CountShare(std::int64_t share, int sign);
  void CountCapacity(std::size_t side);
  void SetLimits(std::size_t side);
  // SetLimits for a side with base loads, and the even share of its links.
  void SetLevel(std::size_t side);
  // The even share of a link of this capacity, in units: its part of the side's load, rounded up to
  // whole shares; or the level of a side with base loads.
  std::int64_t LimitOf(std::size_t side, std::int64_t capacity_bps) const;
  void SetAllLimits();
  // Places a counted subflow that was on the path `before`; appends the moves to moves_. Returns
  // how many steps it took.
  std::int64_t StartOne(SubflowId subflow, std::int32_t before, const Options& options);
  // Links that touch no leaf get the highest limit of all leaves and narrow blocks, scaled to their
  // capacity. Does nothing if none has changed. O(leaves) if one has, and O(links) if the highest
  // has.
  void SetInnerLimits();
  // The same after base loads, capacities or shares have changed.
  void RecomputeInnerLimits();
  // The even share of a link of the side with the unit's capacity.
  std::int64_t UnitLimitOf(std::size_t side) const;
  void QueueIfAboveLimit(std::uint32_t link);

  FabricView& view_;
  Occupancy occupancy_;
  std::vector<Side> sides_;  // leaves as senders, then as receivers
  std::vector<SideLoad> side_loads_;
  std::vector<std::uint32_t> inner_links_;
  NarrowBlocks narrow_blocks_;
  std::int64_t highest_limit_ = 0;                    // by which the limits of inner links are set
  bool is_limit_changed_ = true;                      // of a leaf or a narrow block, since then
  std::map<std::int64_t, std::size_t> share_counts_;  // subflows by share
  std::pair<const std::int64_t, std::size_t>* recent_share_ = nullptr;  // an entry, or none
  std::int64_t smallest_share_ = 0;                                     // of these; 0: none
  std::int64_t greatest_share_ = 0;
  std::vector<std::int64_t> capacities_;    // as of the last link change
  std::vector<std::uint32_t> above_limit_;  // all links above their limits, and maybe others
  std::vector<bool> is_queued_;             // by link
  std::vector<SubflowId> affected_;
  std::vector<Move> moves_;
};

}  // namespace espalier::controller
