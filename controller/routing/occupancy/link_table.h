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

namespace espalier::controller {

// Which ways are on which links, how much that is, and how much each link may carry.
//
// Problem: a start looks at the links of two leaves, an end at two links, and a chain of moves at
// one link after the other, far from each other in memory.
// Idea: a link is told of in the smallest form that can hold what it bears: where it is idle or
// bears one whole flow, in SingleFlowLinks (a Clos only), with up to three ways in its own 32
// bytes, with more in a list beside. Ways on a link are in ascending order, so that what is decided
// depends on where ways are, not on how they came there. Invariant: a way with a route is on
// exactly the links of that route, and the load of a link is the sum of their shares; in a Clos the
// idle spines are those whose links bear nothing. Only MoveTo, SetShare, PutOnIdle, Shift and
// Exchange change routes and shares. Cost: O(ways on the link) for a change of one with more than
// three ways; otherwise O(1), 0.05 to 0.1 us for an end (assignment_bench flows, column "end";
// docs/benchmarks.md).
//
// The view and the ways must outlive it; the view may be refreshed at any time. Thread safety: one
// thread.
class LinkTable {
 public:
  LinkTable(const FabricView& view, SubflowTable& subflows)
      : view_(view), subflows_(subflows), idle_(view) {}

  // All links bear nothing, and have no room; the view may have changed.
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

  // Limits are at most this load, or below it.
  enum class Bound { kAtMost, kBelow };
  void SetLimits(const Load& load, Bound bound);
  // One link's, in units.
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

  // From the links of its route to those of another; kNoPath: from none, or to none.
  void MoveTo(SubflowId subflow, std::int32_t route);
  void SetShare(SubflowId subflow, std::int64_t share);

  // The rest is for a Clos. -----------------------------------------------------------------------

  const IdleSpines& idle() const { return idle_; }
  // None (kNoLeaf) for a link that is at no leaf.
  const LeafLink& EndOf(std::uint32_t link) const { return clos_ends_[link]; }
  std::int64_t LoadAt(const LeafLink& end) const {
    const std::uint16_t peer = PeerAt(end);
    if (peer == SingleFlowLinks::kNotTracked) return links_[end.LinkIn(*view_.clos())].load;
    return peer == SingleFlowLinks::kIdle ? 0 : kLoadUnit;
  }
  // The links of the leaves of this way take one of its kind each (where rates are equal).
  bool TakesOneEach(const SubflowState& state) const {
    return leaf_limits_[LeafSide(state.source, true)] == state.share &&
           leaf_limits_[LeafSide(state.destination, false)] == state.share;
  }

  // Links are told of in SingleFlowLinks at all.
  bool has_single_flow_links() const { return single_flow_links_.is_on(); }
  // The leaf at the other end of the whole flow that is alone on this link; kIdle, or kNotTracked
  // where the link bears anything else.
  std::uint16_t PeerAt(const LeafLink& end) const {
    return single_flow_links_.is_on() ? single_flow_links_.PeerAt(SlotOf(end))
                                      : SingleFlowLinks::kNotTracked;
  }
  // The same, only for has_single_flow_links().
  std::uint16_t SingleFlowPeerAt(const LeafLink& end) const {
    return single_flow_links_.PeerAt(SlotOf(end));
  }
  // That flow's way.
  SubflowId SingleFlowAt(const LeafLink& end) const {
    return single_flow_links_.SubflowAt(SlotOf(end));
  }
  // The only way on this link goes to an idle one of the same leaf. The caller sees to its other
  // end, and to its route.
  void Shift(const LeafLink& from, std::int32_t to) {
    const LeafLink end{from.leaf, static_cast<std::uint32_t>(to), from.sends};
    idle_.Set(from, true);
    idle_.Set(end, false);
    single_flow_links_.Swap(SlotOf(from), SlotOf(end));
  }
  // Two links of one leaf that bear one way each exchange them, likewise.
  void Exchange(const LeafLink& end, const LeafLink& other) {
    single_flow_links_.Swap(SlotOf(end), SlotOf(other));
  }

  // Puts ways of one source that have no route, each on the first spine that is idle at both its
  // leaves, and writes these moves (by path); ways without such a spine stay as they are. Returns
  // how many moves. `moves` must have room for all.
  std::size_t PutOnIdle(std::span<const SubflowId> subflows, SubflowMove* moves);

 private:
  static constexpr std::uint32_t kInlineSubflows = 3;

  // (Its load and ways are void where single_flow_links_ tells of the link.)
  struct alignas(32) LinkUse {
    std::int64_t load = 0;
    std::int64_t limit = 0;
    std::uint32_t count = 0;  // of ways; where they are more than fit here, all are in crowded_
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
  void AddAt(const LeafLink& end, SubflowId subflow);
  void TakeAt(const LeafLink& end, SubflowId subflow);
  // Onto the links of a route, and off them.
  void Put(SubflowId subflow, std::int32_t route);
  void Lift(SubflowId subflow, std::int32_t route);

  const FabricView& view_;
  SubflowTable& subflows_;
  std::vector<LinkUse> links_;
  std::vector<std::vector<SubflowId>> crowded_;  // by link; empty where it has few ways
  std::vector<LeafLink> clos_ends_;              // by link; empty where the fabric is none
  IdleSpines idle_;
  SingleFlowLinks single_flow_links_;
  // Of a leaf's usable links, as senders, then as receivers: all the same where rates are equal.
  std::vector<std::int64_t> leaf_limits_;
};

// The two ends of a route through a Clos: at the source, and at the destination.
inline std::array<LeafLink, 2> EndsOf(const SubflowState& state, std::int32_t route) {
  const auto spine = static_cast<std::uint32_t>(route);
  return {LeafLink{state.source, spine, true}, LeafLink{state.destination, spine, false}};
}

}  // namespace espalier::controller
