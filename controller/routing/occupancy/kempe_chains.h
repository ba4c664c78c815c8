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

// Makes room for a subflow in a 2-tier Clos with equal links, by a Kempe chain.
//
// Problem: a subflow from leaf u to leaf v needs a spine with room on u's link to it and on v's
// link from it. If the links of leaves are evenly loaded, there is often none: one spine, `a`, has
// room at u, and another one, `b`, has room at v.
// Idea: the alternating (Kempe) chain of edge colouring (graph/edge_coloring.h), with leaves as
// nodes, subflows as edges, and spines as colours. A subflow that v receives through `a` moves to
// `b`, where v has room. At its own source it displaces a subflow that leaves through `b`, which
// moves to `a`. That one displaces another at its destination, and so on until a subflow moves to a
// link that has room. Then `a` has room at v, and the subflow from u takes it. The chain can also
// start on u's side, with the spines exchanged.
// Invariant: each subflow that moves takes the room that the next one leaves at one of its leaves.
// So no link along the chain carries more than before, except the last one, which had room. With
// equal links and equal shares a chain never returns to its start. It ends, as it moves each
// subflow on the two spines at most once. A subflow for which a spine is idle at both leaves can
// end it early.
// Choice: of up to 16 chains (8 spines at either end), the shortest to within a factor of 2, and of
// these the one that moves the fewest bytes in flight. All chains are followed up to a length that
// doubles until one ends. If each link carries one whole flow, all are followed in step, in
// SingleFlowLinks alone (FindShortestAmongSingleFlows).
// Cost: O(spines / 64) if a spine is idle at both leaves; else O(spines) to find those with room,
// and O(length) for each chain. An arrival that displaces others takes 0.4 us (64 leaves) to 0.9 us
// (1,024 leaves) at the median; assignment_bench flows.
//
// Deterministic: the result depends on where subflows are, not on the order in which they came. The
// view and the tables must outlive it; calls other than IsPossible and Clear require IsPossible.
// Thread safety: one thread.
class KempeChains {
 public:
  KempeChains(const FabricView& view, SubflowTable& subflows, LinkTable& links)
      : view_(view), subflows_(subflows), links_(links) {}

  // To be called after the tables were cleared.
  void Clear() { walk_ = 0; }
  // Whether the fabric is a 2-tier Clos whose usable links have equal rates.
  bool IsPossible() const { return view_.clos() && view_.clos()->equal_rates; }

  // Returns a route with room at both leaves for a subflow without a route: an idle spine, else the
  // least loaded one, else one where moves of others have made room. These moves have been made,
  // and are in moves(). kNoPath, without any change, if there is no such chain within the budget
  // and `steps` (spines and subflows considered; reduced by what is used).
  std::int32_t MakeRoom(SubflowId subflow, const MoveBudget& budget, std::int64_t& steps);
  // The moves by route, in the order of the chain: the last one is made first. Valid until the next
  // call.
  std::span<const SubflowMove> moves() const { return walk_moves_; }
  // Takes one subflow off a link, by a chain that ends at a link with room. Returns the moves as
  // moves() does; empty if there is no such chain.
  std::span<const SubflowMove> Relieve(std::uint32_t link, const MoveBudget& budget,
                                       std::int64_t& steps);

 private:
  static constexpr std::size_t kNoChain = 0xFFFF'FFFF;
  static constexpr std::uint32_t kMaxWalks = (1U << 30) - 1;
  // With more chains to choose from, the best is shorter, but the search costs more.
  static constexpr std::size_t kMaxChains = 16;

  // A subflow at `start` moves from its spine to `other`, where `start.leaf` has room. The subflow
  // that it displaces at its other end moves from `other` to the first spine, and so on.
  struct Chain {
    LeafLink start;
    std::uint32_t other;
  };
  // The spines that a subflow may use: the least loaded one with room at both ends, and some with
  // room at one end only.
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

  // SurveySpines checks all links. SurveyIdleSpines checks idle ones only, which are all that have
  // room if links take one subflow each.
  Survey SurveySpines(const SubflowState& state) const;
  Survey SurveyIdleSpines(const SubflowState& state) const;
  // MakeRoom if no spine is idle at both leaves.
  std::int32_t MakeRoomFor(const SubflowState& state, const MoveBudget& budget,
                           std::int64_t& steps);
  // Finds the cheapest chain of a single move to an idle spine, by masks. Returns the route that it
  // frees, or kNoPath.
  std::int32_t FindSingleMove(const SubflowState& state, const MoveBudget& budget);
  void CollectInsertions(const SubflowState& state, const Survey& survey);

  // Puts the best of chains_ into walk_moves_; returns its index, or kNoChain.
  std::size_t FindShortest(std::int64_t share, const MoveBudget& budget, std::int64_t& steps);
  // As FindShortest, if links carry one whole flow each. Ignores chains that reach a link with
  // several subflows.
  std::size_t FindShortestAmongSingleFlows(const MoveBudget& budget, std::int64_t& steps);
  // Puts the first `length` moves of such a chain into walk_moves_; the last one goes to a spine
  // with room. False if a subflow is not alone at both ends or may not be moved.
  bool WalkSingleFlows(Chain chain, std::size_t length, MoveBudget& budget);
  // Starts a walk, which takes each subflow at most once.
  void BeginWalk() { walk_ = (walk_ + 1) & kMaxWalks; }
  Walk Follow(const Chain& chain, std::int64_t share, MoveBudget& budget, std::size_t length);
  // The subflow of this share on a link that is cheapest to move and not yet in the walk.
  SubflowId CheapestAt(const LeafLink& end, std::int64_t share) const;
  static bool IsCheaper(const MoveBudget& left, const MoveBudget& than);

  // Makes the moves of walk_moves_.
  void MakeMoves();
  // As MakeMoves, if all subflows are alone on their links. At every leaf between the chain's ends,
  // two links exchange their subflows. `sends`: the chain starts at a sending leaf.
  void MakeSingleFlowMoves(bool sends);

  const FabricView& view_;
  SubflowTable& subflows_;
  LinkTable& links_;
  std::vector<Chain> chains_;
  std::vector<SubflowMove> walk_moves_;  // routes, not paths
  std::vector<SubflowMove> best_walk_;
  std::uint32_t walk_ = 0;
};

}  // namespace espalier::controller
