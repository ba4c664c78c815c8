#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "controller/routing/assignment.h"
#include "controller/routing/sole_ways.h"

namespace espalier::controller {

// Which ways (one path of one flow) are on which links, and alternating chains of moves among
// them: a way moves to another path, which pushes a way off the one link that is too full for
// it, which moves to another path, ... until one fits. Every link has its own limit.
//
// In a 2-layer Clos with equal links first along two spines only (a Kempe chain of the edge
// colouring: O(its length); the shortest of a few). Where that fails, and elsewhere, breadth-first
// over all paths.
//
// Loads are in units of 1 / kLoadUnit of a flow. The view must outlive it, and may be refreshed
// at any time. Thread safety: one thread.
class Occupancy {
 public:
  using Way = std::uint32_t;  // dense, reused after Remove

  struct Move {
    Way way = 0;
    std::int32_t from = 0;  // kNoPath (-1): it had none
    std::int32_t to = 0;
  };

  // What a chain may move.
  struct MoveBudget {
    std::size_t moves = std::numeric_limits<std::size_t>::max();
    std::size_t live = std::numeric_limits<std::size_t>::max();     // of them: see SetLive
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();  // in flight, of these
  };

  // What is in flight of a way that is live; asked for only when it might move. Not set: nothing.
  using BytesInFlight = std::function<std::int64_t(Way)>;

  explicit Occupancy(FabricView& view, BytesInFlight bytes_in_flight = nullptr)
      : view_(view), bytes_in_flight_(std::move(bytes_in_flight)) {
    Clear();
  }

  // Forgets all ways; the view may have changed.
  void Clear();

  // A way between two leaves, at first without a path. `pinned`: chains never move it.
  Way Add(std::uint32_t source, std::uint32_t destination, std::int64_t share, bool pinned);
  void Remove(Way way);
  // Puts it on a path (an index as in FabricView::Candidates), or on none (-1).
  void Place(Way way, std::int32_t path);
  void Pin(Way way, bool pinned) { ways_[way].pinned = pinned; }
  // It has begun: moving it costs its bytes in flight. Of the first few ways on a link a chain
  // takes the cheapest, one that is not live first; of several chains, the cheapest of about the
  // least length.
  void SetLive(Way way) { ways_[way].live = true; }
  // What it puts on each link of its path from now on.
  void SetShare(Way way, std::int64_t share);

  bool HasPath(Way way) const { return ways_[way].route >= 0; }
  std::int32_t PathOf(Way way) const { return ToPath(ways_[way], ways_[way].route); }
  std::uint32_t SourceOf(Way way) const { return ways_[way].source; }
  std::uint32_t DestinationOf(Way way) const { return ways_[way].destination; }
  std::int64_t ShareOf(Way way) const { return ways_[way].share; }
  // What moving it takes off a budget.
  void Charge(Way way, MoveBudget& budget) const;
  // All links of its path are usable now; it must have one.
  bool IsOnUsablePath(Way way) const { return IsUsable(ways_[way], ways_[way].route); }
  // The links of its path; it must have one.
  PathLinks LinksOf(Way way) const { return LinksOf(ways_[way], ways_[way].route); }
  std::size_t link_count() const { return links_.size(); }
  std::int64_t LoadOf(std::size_t link) const {
    if (!sole_.is_on() || clos_ends_[link].leaf == kNone) return links_[link].load;
    return LoadAt(clos_ends_[link]);
  }
  std::vector<std::int64_t> Loads() const;  // by link
  // Ascending, so that what is decided depends on where ways are, not on how they came there.
  std::span<const Way> WaysOn(std::uint32_t link) const;

  // The usable path whose busiest link would carry least with this way on it, relative to its
  // capacity; the lowest index among equals; -1 if no path is usable.
  std::int32_t LeastLoadedPath(Way way) const;

  // Chains bring no link above this load, or none up to it.
  enum class Bound { kAtMost, kBelow };
  void SetLimit(const Load& load, Bound bound);
  // One link's, in units.
  void SetLinkLimit(std::uint32_t link, std::int64_t units);
  bool IsAboveLimit(std::uint32_t link) const { return LoadOf(link) > links_[link].limit; }

  // Finds a path for a way that has none, with moves of others, such that no link that the chain
  // touches is above its limit (unless it was). Or takes one way off a link and places it
  // elsewhere. The moves are made, and returned in order (valid until the next call); none if
  // there is no such chain within `steps` (candidate paths looked at; what is used is taken off).
  std::span<const Move> Insert(Way way, const MoveBudget& budget, std::int64_t& steps);
  // Finds paths for ways of one source that have none, each over two links of a Clos that carry
  // nothing; the others stay without. (Limits are for links with several ways.) The moves, as
  // above.
  std::span<const Move> InsertIdle(std::span<const Way> ways);
  std::span<const Move> Relieve(std::uint32_t link, const MoveBudget& budget, std::int64_t& steps);

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;
  static constexpr std::int64_t kNotLive = -1;
  static constexpr std::uint32_t kInlineWays = 3;
  static constexpr std::uint32_t kMostWalks = (1U << 30) - 1;

  // (Its load and ways are void where sole_ tells of the link.)
  struct alignas(32) LinkUse {
    std::int64_t load = 0;
    std::int64_t limit = 0;
    std::uint32_t count = 0;  // of ways; where they are more than fit here, all are in crowded_
    std::array<Way, kInlineWays> ways{};
  };

  // A route is a path as this class counts them: by spine in a Clos, whether there is such a path
  // or not; elsewhere by index among the candidates.
  struct alignas(32) WayState {
    const CandidatePaths* candidates = nullptr;  // null in a Clos
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    std::int32_t route = -1;
    std::uint32_t walk : 30 = 0;  // the last walk along a chain that took it
    bool pinned : 1 = false;
    bool live : 1 = false;
    std::int64_t share = 0;
  };
  // A move considered: it leaves `blocked` too full, or nothing.
  struct Step {
    Way way;
    std::int32_t to;  // route
    std::uint32_t blocked;
    std::uint32_t parent;  // kNone: the first
    MoveBudget left;       // after all up to this
  };
  // A link of a Clos as the end at a leaf of a spine's colour.
  struct ClosEnd {
    std::uint32_t leaf = kNone;
    std::uint32_t spine = 0;
    bool sends = false;
  };
  // Along two spines: a way at `start` leaves its spine for `other`, where `start.leaf` has room,
  // the way that is in its place at its other end leaves `other` for the spine, and so on.
  struct Chain {
    ClosEnd start;
    std::uint32_t other;
  };
  // More chains to choose among are shorter, but cost more to look at.
  static constexpr std::size_t kMaxChains = 16;
  // The spines of a Clos as a way sees them: the least loaded with room at both ends, and some
  // with room at one end only.
  struct Survey {
    std::int32_t best = -1;
    std::size_t sources = 0;
    std::size_t destinations = 0;
    std::array<std::uint32_t, kMaxChains / 2> at_source;
    std::array<std::uint32_t, kMaxChains / 2> at_destination;
  };
  enum class Walk { kFound, kTooLong, kBlocked };

  bool HasRoom(std::uint32_t link, std::int64_t share) const {
    return view_.capacities()[link] > 0 && LoadOf(link) + share <= links_[link].limit;
  }
  bool HasRoomOn(const WayState& state, std::int32_t route) const {
    const PathLinks links = LinksOf(state, route);
    return std::all_of(links.begin(), links.end(),
                       [&](std::uint32_t link) { return HasRoom(link, state.share); });
  }
  bool HasTwoSpineChains() const { return view_.clos() && view_.clos()->equal_rates; }
  std::int32_t ToPath(const WayState& state, std::int32_t route) const;
  std::int32_t ToRoute(const WayState& state, std::int32_t path) const;
  std::size_t RouteCount(const WayState& state) const;
  bool IsUsable(const WayState& state, std::int32_t route) const;
  PathLinks LinksOf(const WayState& state, std::int32_t route) const;
  std::uint32_t LinkAt(const ClosEnd& end) const {
    const Clos& clos = *view_.clos();
    return (end.sends ? clos.up : clos.down)[std::size_t{end.leaf} * clos.spines + end.spine];
  }
  // The mask word of an end, and its bit there.
  std::size_t WordOf(const ClosEnd& end) const {
    return std::size_t{end.leaf} * view_.clos()->words + end.spine / 64;
  }
  static std::uint64_t BitOf(const ClosEnd& end) { return std::uint64_t{1} << (end.spine % 64); }
  bool IsLive(const ClosEnd& end) const {
    const Clos& clos = *view_.clos();
    return ((end.sends ? clos.up_live : clos.down_live)[WordOf(end)] & BitOf(end)) != 0;
  }
  std::size_t SlotOf(const ClosEnd& end) const {
    return sole_.RowOf(end.leaf, end.sends) + end.spine;
  }
  std::uint16_t PeerAt(const ClosEnd& end) const { return sole_.PeerAt(SlotOf(end)); }
  std::int64_t LoadAt(const ClosEnd& end) const {
    const std::uint16_t peer = sole_.is_on() ? PeerAt(end) : SoleWays::kNotHere;
    if (peer == SoleWays::kNotHere) return links_[LinkAt(end)].load;
    return peer == SoleWays::kIdle ? 0 : kLoadUnit;
  }
  void SetIdle(const ClosEnd& end, bool idle) {
    std::uint64_t& word = (end.sends ? idle_up_ : idle_down_)[WordOf(end)];
    word = idle ? word | BitOf(end) : word & ~BitOf(end);
  }
  std::size_t LeafSide(std::uint32_t leaf, bool sends) const {
    return (sends ? 0 : std::size_t{view_.leaf_count()}) + leaf;
  }
  static std::array<ClosEnd, 2> EndsOf(const WayState& state, std::int32_t route) {
    const auto spine = static_cast<std::uint32_t>(route);
    return {ClosEnd{state.source, spine, true}, ClosEnd{state.destination, spine, false}};
  }

  void AddTo(std::uint32_t link, Way way);
  void TakeFrom(std::uint32_t link, Way way);
  void AddAt(const ClosEnd& end, Way way);
  void TakeAt(const ClosEnd& end, Way way);
  // Onto the links of a route, and off them.
  void Put(Way way, std::int32_t route);
  void Lift(Way way, std::int32_t route);
  void MoveTo(Way way, std::int32_t route);

  // Chains along two spines.
  // The spines of a word to which a leaf's link is live and bears nothing.
  std::uint64_t IdleAt(std::uint32_t leaf, bool sends, std::uint32_t word) const {
    const Clos& clos = *view_.clos();
    const std::size_t at = std::size_t{leaf} * clos.words + word;
    return sends ? idle_up_[at] & clos.up_live[at] : idle_down_[at] & clos.down_live[at];
  }
  // The first that is idle at both ends; -1.
  std::int32_t IdleRoute(std::uint32_t source, std::uint32_t destination) const {
    for (std::uint32_t word = 0; word < view_.clos()->words; ++word) {
      const std::uint64_t idle = IdleAt(source, true, word) & IdleAt(destination, false, word);
      if (idle != 0) return static_cast<std::int32_t>(64 * word) + std::countr_zero(idle);
    }
    return -1;
  }
  // Between the leaf of an end and another, in the direction of the end.
  std::int32_t IdleRouteFrom(const ClosEnd& end, std::uint32_t peer) const {
    return end.sends ? IdleRoute(end.leaf, peer) : IdleRoute(peer, end.leaf);
  }
  // All links; the idle ones, which are all with room where links take one each.
  Survey LookAround(const WayState& state) const;
  Survey LookAtIdle(const WayState& state) const;
  // A route without a common idle spine: one with room, or one that moves make free, which are left
  // in walk_moves_ (none were before); -1.
  std::int32_t MakeRoom(const WayState& state, const MoveBudget& budget, std::int64_t& steps);
  // A chain of one move to an idle spine, found by masks: the cheapest.
  std::int32_t FindSingleMove(const WayState& state, const MoveBudget& budget);
  void CollectInsertions(const WayState& state, const Survey& survey);
  bool InsertAlong(Way way, const MoveBudget& budget, std::int64_t& steps);
  bool RelieveAlong(std::uint32_t link, const MoveBudget& budget, std::int64_t& steps);
  // The shortest of chains_, to within a factor of 2, is left in walk_moves_, and the cheapest of
  // these; its index, or kNone. None is shorter than half of `length`, a power of 2.
  std::size_t FindShortest(std::int64_t share, const MoveBudget& budget, std::int64_t& steps,
                           std::size_t length = 1);
  // The same where links bear one way each: all chains are followed in step, by sole_ alone. Those
  // that come to a link with several ways are left out.
  std::size_t FindShortestOfSole(const MoveBudget& budget, std::int64_t& steps);
  // That many moves of a chain of such, into walk_moves_, the last to a spine that is idle where it
  // needs it; false if a way is not alone at both ends, or may not be moved.
  bool WalkSole(Chain chain, std::size_t length, MoveBudget& budget);
  void BeginWalk() { walk_ = (walk_ + 1) & kMostWalks; }
  Walk Follow(const Chain& chain, std::int64_t share, MoveBudget& budget, std::size_t length);
  Way CheapestAt(const ClosEnd& end, std::int64_t share) const;
  Way CheapestOn(std::uint32_t link, std::int64_t share) const;
  static bool IsCheaper(const MoveBudget& left, const MoveBudget& than);
  // Makes the moves of walk_moves_.
  void TakeWalk();
  // The same of a chain of ways that are alone on their links, which begins at a sender or a
  // receiver: at every leaf between its ends two links exchange their ways, and carry as before.
  void TakeSole(bool sends);
  // The only way on this link goes to an idle one of the same leaf.
  void ShiftSole(const ClosEnd& from, std::int32_t to);
  // moves_ was by route.
  void TellByPath();

  // What is in flight of it; kNotLive for one that has not begun.
  std::int64_t CostOf(Way way) const;
  // It is there to be moved, and within the budget.
  bool CanMove(Way way, const MoveBudget& budget) const;

  // Breadth-first.
  std::span<const Move> Search(std::int64_t& steps);
  // All moves of a way that leave at most one link too full, after the step `parent`.
  bool TryMovesOf(Way way, std::uint32_t parent, const MoveBudget& budget, std::int64_t& steps);
  // What the step before adds to a link's load.
  std::int64_t Change(const Step& step, std::uint32_t link) const;
  bool Apply(std::uint32_t last);

  FabricView& view_;
  const BytesInFlight bytes_in_flight_;
  std::vector<WayState> ways_;
  std::vector<Way> free_ways_;
  std::vector<LinkUse> links_;
  std::vector<std::vector<Way>> crowded_;  // by link; empty where it has few ways
  std::vector<ClosEnd> clos_ends_;         // by link; empty where the fabric is none
  // Spines to which a leaf's link bears nothing, as masks like Clos::up_live.
  std::vector<std::uint64_t> idle_up_;
  std::vector<std::uint64_t> idle_down_;
  SoleWays sole_;
  // Of a leaf's usable links, as senders, then as receivers: all the same where rates are equal.
  std::vector<std::int64_t> leaf_limits_;
  std::vector<Chain> chains_;
  std::vector<Move> walk_moves_;  // by route
  std::vector<Move> best_walk_;
  std::uint32_t walk_ = 0;
  std::vector<Step> queue_;
  std::vector<std::uint32_t> visited_;  // by link: the search that visited it
  std::uint32_t search_ = 0;
  std::vector<Move> moves_;
};

}  // namespace espalier::controller
