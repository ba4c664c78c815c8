#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/load.h"
#include "controller/routing/occupancy/idle_spines.h"
#include "controller/routing/occupancy/single_flow_links.h"
#include "controller/routing/occupancy/subflow_table.h"
#include "controller/routing/occupancy/tier_rooms.h"

namespace espalier::controller {

// Keeps which subflows are on each link, the link's load, and its limit.
//
// Problem: an arrival reads the links of two leaves, a departure two links, and a chain of moves
// one link after the other, all far apart in memory.
// Idea: each link is stored in the smallest form that holds its subflows. A link of a Clos that is
// idle or carries one whole flow is in SingleFlowLinks. Up to three subflows are in the link's own
// 32 bytes, more in a separate list. The subflows of a link are in ascending order, so decisions
// depend on where subflows are, not on the order in which they came.
// Invariant: a subflow with a route is on exactly the links of that route. The load of a link is
// its base load and the sum of the shares on it. A link with a base load is never in
// SingleFlowLinks, and never idle. In a Clos, the idle spines are those whose links carry nothing.
// Only MoveTo, SetShare, PutOnIdle, Shift and Exchange change routes and shares.
// Cost: O(subflows on the link) to change a link with more than three; otherwise O(1), 0.05 to 0.1
// us for a departure (assignment_bench flows, column "end"; docs/benchmarks.md).
//
// The view and the subflow table must outlive it; the view may be refreshed at any time.
// Thread safety: one thread.
class LinkTable {
 public:
  LinkTable(const FabricView& view, SubflowTable& subflows)
      : view_(view), subflows_(subflows), idle_(view) {}

  // Empties all links and sets their limits and base loads to 0; the view may have changed.
  void Clear();

  std::size_t size() const { return links_.size(); }
  std::int64_t LoadOf(std::size_t link) const {
    if (!single_flow_links_.is_on() || clos_ends_[link].leaf == LeafLink::kNoLeaf)
      return links_[link].load;
    return LoadAt(clos_ends_[link]);
  }
  std::vector<std::int64_t> Loads() const;  // by link
  // Ascending; valid until the next change.
  std::span<const SubflowId> SubflowsOn(std::uint32_t link) const;

  // Sets the limits of all links: at most this load, or below it.
  enum class Bound { kAtMost, kBelow };
  void SetLimits(const Load& load, Bound bound);
  // Sets the limit of one link, in units.
  void SetLimit(std::uint32_t link, std::int64_t units);
  std::int64_t LimitOf(std::uint32_t link) const { return links_[link].limit; }
  bool IsAboveLimit(std::uint32_t link) const { return LoadOf(link) > links_[link].limit; }
  bool HasRoom(std::uint32_t link, std::int64_t share) const {
    return view_.capacities()[link] > 0 && LoadOf(link) + share <= links_[link].limit;
  }
  bool HasRoomOn(const SubflowState& state, std::int32_t route) const {
    const PathLinks links = subflows_.LinksOf(state, route);
    return std::all_of(links.begin(), links.end(),
                       [&](std::uint32_t link) { return HasRoom(link, state.share); });
  }

  // Sets the loads that no subflow causes, by link in units (>= 0); empty: none. O(links).
  void SetBaseLoads(std::span<const std::int64_t> units);
  std::span<const std::int64_t> base_loads() const { return base_; }  // empty: none
  std::int64_t BaseOf(std::uint32_t link) const { return base_.empty() ? 0 : base_[link]; }

  // Which links have room, in a folded Clos of more than two tiers.
  TierRooms& rooms() { return rooms_; }

  // Moves it from the links of its route to those of another (kNoPath: to none).
  void MoveTo(SubflowId subflow, std::int32_t route);
  void SetShare(SubflowId subflow, std::int64_t share);

  // The rest requires a Clos. ---------------------------------------------------------------------

  const IdleSpines& idle() const { return idle_; }
  // The leaf is kNoLeaf for a link without a leaf.
  const LeafLink& EndOf(std::uint32_t link) const { return clos_ends_[link]; }
  std::int64_t LoadAt(const LeafLink& end) const {
    const std::uint16_t peer = PeerAt(end);
    if (peer == SingleFlowLinks::kNotTracked) return links_[end.LinkIn(*view_.clos())].load;
    return peer == SingleFlowLinks::kIdle ? 0 : kLoadUnit;
  }
  // Whether the link stays above its limit if another subflow takes the place of one on it. Reads
  // nothing of the link if there are no base loads.
  bool IsFilledByBase(const LeafLink& end) const {
    if (base_.empty()) return false;
    const std::uint32_t link = end.LinkIn(*view_.clos());
    return base_[link] > 0 && IsAboveLimit(link);
  }
  // Whether each link of its leaves takes one subflow of its share (if rates are equal).
  bool TakesOneEach(const SubflowState& state) const {
    return leaf_limits_[LeafSide(state.source, true)] == state.share &&
           leaf_limits_[LeafSide(state.destination, false)] == state.share;
  }

  // Whether SingleFlowLinks is used at all.
  bool has_single_flow_links() const { return single_flow_links_.is_on(); }
  // The leaf at the other end of the whole flow that is alone on this link; kIdle; or kNotTracked
  // if the link carries anything else.
  std::uint16_t PeerAt(const LeafLink& end) const {
    return single_flow_links_.is_on() ? single_flow_links_.PeerAt(SlotOf(end))
                                      : SingleFlowLinks::kNotTracked;
  }
  // As PeerAt; requires has_single_flow_links().
  std::uint16_t SingleFlowPeerAt(const LeafLink& end) const {
    return single_flow_links_.PeerAt(SlotOf(end));
  }
  // The subflow that is alone on this link.
  SubflowId SingleFlowAt(const LeafLink& end) const {
    return single_flow_links_.SubflowAt(SlotOf(end));
  }
  // Moves the only subflow on this link to an idle link of the same leaf. The caller changes its
  // other end and its route.
  void Shift(const LeafLink& from, std::int32_t to) {
    const LeafLink end{from.leaf, static_cast<std::uint32_t>(to), from.sends};
    idle_.Set(from, true);
    idle_.Set(end, false);
    single_flow_links_.Swap(SlotOf(from), SlotOf(end));
  }
  // Exchanges the subflows of two links of one leaf that carry one each; the caller changes the
  // rest, as for Shift.
  void Exchange(const LeafLink& end, const LeafLink& other) {
    single_flow_links_.Swap(SlotOf(end), SlotOf(other));
  }

  // Puts each of these subflows, which have one source and no route, on the first spine that is
  // idle at both its leaves. Subflows without such a spine stay as they are. Writes the moves (by
  // path) to `moves`, which must have room for all, and returns their number.
  std::size_t PutOnIdle(std::span<const SubflowId> subflows, SubflowMove* moves);

 private:
  static constexpr std::uint32_t kInlineSubflows = 3;

  // Load and subflows are invalid while single_flow_links_ tracks the link.
  struct alignas(32) LinkUse {
    std::int64_t load = 0;
    std::int64_t limit = 0;
    std::uint32_t count = 0;  // if more than kInlineSubflows, all subflows are in crowded_
    std::array<SubflowId, kInlineSubflows> subflows{};
  };

  std::size_t SlotOf(const LeafLink& end) const {
    return single_flow_links_.RowOf(end.leaf, end.sends) + end.spine;
  }
  std::size_t LeafSide(std::uint32_t leaf, bool sends) const {
    return (sends ? 0 : std::size_t{view_.leaf_count()}) + leaf;
  }

  void AddTo(std::uint32_t link, SubflowId subflow);
  void TakeFrom(std::uint32_t link, SubflowId subflow);
  // Stores the link in its own entry, not in single_flow_links_.
  void Untrack(const LeafLink& end);
  // Stores the link, which is in its own entry, in single_flow_links_ if it can be there.
  void Track(const LeafLink& end);
  void AddAt(const LeafLink& end, SubflowId subflow);
  void TakeAt(const LeafLink& end, SubflowId subflow);
  // Adds it to the links of a route, or takes it off them.
  void Put(SubflowId subflow, std::int32_t route);
  void Lift(SubflowId subflow, std::int32_t route);

  const FabricView& view_;
  SubflowTable& subflows_;
  std::vector<LinkUse> links_;
  std::vector<std::vector<SubflowId>> crowded_;  // by link; empty for kInlineSubflows or fewer
  std::vector<LeafLink> clos_ends_;              // by link; empty if the fabric is not a Clos
  IdleSpines idle_;
  SingleFlowLinks single_flow_links_;
  TierRooms rooms_;
  std::vector<std::int64_t> base_;  // by link; empty: none
  // The limit of a leaf's usable links, for sending, then for receiving (the last one set; all the
  // same if rates are equal).
  std::vector<std::int64_t> leaf_limits_;
};

// The subflow of this share on a link that is cheapest to move, of the first few that are not
// pinned and not in this walk (SubflowState::walk); or kNoSubflow.
SubflowId CheapestOn(const LinkTable& links, const SubflowTable& subflows, std::uint32_t link,
                     std::int64_t share, std::uint32_t walk);

// The two ends of a route through a Clos: at the source and at the destination.
inline std::array<LeafLink, 2> EndsOf(const SubflowState& state, std::int32_t route) {
  const auto spine = static_cast<std::uint32_t>(route);
  return {LeafLink{state.source, spine, true}, LeafLink{state.destination, spine, false}};
}

}  // namespace espalier::controller
