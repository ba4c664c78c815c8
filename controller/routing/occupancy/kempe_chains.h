#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/occupancy/link_table.h"
#include "controller/routing/occupancy/subflow_table.h"

namespace espalier::controller {

// Makes room for a way in a 2-layer Clos with equal links, by moves along two spines.
//
// Problem: a way from leaf u to leaf v needs a spine with room on u's link to it and on v's link
// from it. Where the links of leaves are evenly loaded there often is none: a spine `a` has room at
// u, another, `b`, has room at v.
// Idea: the alternating (Kempe) chain of the edge colouring (graph/edge_coloring.h), in which
// leaves are nodes, ways are edges, and spines are colours. A way that v receives through `a` moves
// to `b`, where v has room; at its own source it takes the place of a way that leaves through `b`,
// which moves to `a`; that one takes the place of another at its destination, ... until a way moves
// to a link that has room. Then `a` is free at v, and the way from u takes it; it may as well be
// done with the spines exchanged, from u's side.
// Invariant: each way that moves takes the place that the next one leaves, at one of its leaves, so
// that along the chain no link carries more than before; only the last link, which had room, does.
// With equal links and equal shares a chain never comes back to where it began; it ends, as there
// are no more ways than leaves on one spine. A way on an idle spine can end it at any time.
// Which chain: of up to 16 (8 spines at either end) the shortest, to within a factor of 2, and of
// these the one that moves the fewest bytes in flight. All are followed a little way, then those
// that have not ended twice as far. Where links bear one whole way each, all are followed in step,
// by SingleFlowLinks alone (FindShortestAmongSingleFlows).
// Cost: O(spines / 64) where a spine is idle at both leaves; O(spines) to find those with room, and
// O(length) for each chain. A start in another's place takes 0.4 us (64 leaves) to 0.9 us (1,024
// leaves) at the median; assignment_bench flows.
//
// Deterministic: where ways are decides, not how they came there. The view and the tables must
// outlive it; calls other than IsPossible and Clear need IsPossible. Thread safety: one thread.
class KempeChains {
 public:
  KempeChains(const FabricView& view, SubflowTable& subflows, LinkTable& links)
      : view_(view), subflows_(subflows), links_(links) {}

  // The tables were cleared.
  void Clear() { walk_ = 0; }
  // The fabric is a Clos whose usable links have equal rates.
  bool IsPossible() const { return view_.clos() && view_.clos()->equal_rates; }

  // The route on which a way that has none finds room at both its leaves: an idle spine, or else
  // the least loaded, or else one on which moves of others have made room. These have been made by
  // then, and are in moves(). kNoPath, and all is as it was, if there is no such chain within the
  // budget and `steps` (spines and ways looked at; what is used is taken off).
  std::int32_t MakeRoom(SubflowId subflow, const MoveBudget& budget, std::int64_t& steps);
  // By route, in the order of the chain; the last is the first to be made. Valid until the next
  // call.
  std::span<const SubflowMove> moves() const { return walk_moves_; }
  // Takes one way off a link, by a chain that ends at a link with room. The moves, likewise; none
  // if there is no such chain.
  std::span<const SubflowMove> Relieve(std::uint32_t link, const MoveBudget& budget,
                                       std::int64_t& steps);

 private:
  static constexpr std::size_t kNoChain = 0xFFFF'FFFF;
  static constexpr std::uint32_t kMaxWalks = (1U << 30) - 1;
  // More chains to choose among are shorter, but cost more to look at.
  static constexpr std::size_t kMaxChains = 16;

  // A way at `start` leaves its spine for `other`, where `start.leaf` has room, the way that is in
  // its place at its other end leaves `other` for the spine, and so on.
  struct Chain {
    LeafLink start;
    std::uint32_t other;
  };
  // The spines of a Clos as a way sees them: the least loaded with room at both ends, and some
  // with room at one end only.
  struct Survey {
    std::int32_t best = kNoPath;
    std::size_t sources = 0;
    std::size_t destinations = 0;
    std::array<std::uint32_t, kMaxChains / 2> at_source;
    std::array<std::uint32_t, kMaxChains / 2> at_destination;
  };
  enum class Walk { kFound, kTooLong, kBlocked };

  std::uint32_t LinkAt(const LeafLink& end) const { return end.LinkIn(*view_.clos()); }
  bool IsLive(const LeafLink& end) const { return end.IsLiveIn(*view_.clos()); }

  // All links; the idle ones, which are all with room where links take one each.
  Survey SurveySpines(const SubflowState& state) const;
  Survey SurveyIdleSpines(const SubflowState& state) const;
  // MakeRoom without a spine that is idle at both leaves.
  std::int32_t MakeRoomFor(const SubflowState& state, const MoveBudget& budget,
                           std::int64_t& steps);
  // A chain of one move to an idle spine, found by masks: the cheapest. Its route, or kNoPath.
  std::int32_t FindSingleMove(const SubflowState& state, const MoveBudget& budget);
  void CollectInsertions(const SubflowState& state, const Survey& survey);

  // The best of chains_ is left in walk_moves_; its index, or kNoChain.
  std::size_t FindShortest(std::int64_t share, const MoveBudget& budget, std::int64_t& steps);
  // The same where links bear one whole way each. Those that come to a link with several ways are
  // left out.
  std::size_t FindShortestAmongSingleFlows(const MoveBudget& budget, std::int64_t& steps);
  // So many moves of a chain of such, into walk_moves_, the last to a spine that is idle where it
  // needs it; false if a way is not alone at both ends, or may not be moved.
  bool WalkSingleFlows(Chain chain, std::size_t length, MoveBudget& budget);
  // A way is taken by a walk at most once.
  void BeginWalk() { walk_ = (walk_ + 1) & kMaxWalks; }
  Walk Follow(const Chain& chain, std::int64_t share, MoveBudget& budget, std::size_t length);
  // The way of this share on a link that is the cheapest to move and not yet in the walk.
  SubflowId CheapestAt(const LeafLink& end, std::int64_t share) const;
  SubflowId CheapestOn(std::uint32_t link, std::int64_t share) const;
  static bool IsCheaper(const MoveBudget& left, const MoveBudget& than);

  // Makes the moves of walk_moves_.
  void MakeMoves();
  // The same of a chain of ways that are alone on their links, which begins at a sender or a
  // receiver: at every leaf between its ends two links exchange their ways, and carry as before.
  void MakeSingleFlowMoves(bool sends);

  const FabricView& view_;
  SubflowTable& subflows_;
  LinkTable& links_;
  std::vector<Chain> chains_;
  std::vector<SubflowMove> walk_moves_;  // by route
  std::vector<SubflowMove> best_walk_;
  std::uint32_t walk_ = 0;
};

}  // namespace espalier::controller
