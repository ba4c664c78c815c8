#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/occupancy/link_table.h"
#include "controller/routing/occupancy/subflow_table.h"

namespace espalier::controller {

// Makes room for a subflow in a folded Clos of more than two tiers, by Kempe chains on every tier.
//
// Problem: a subflow needs, tier by tier, a top that both its blocks reach over links with room: on
// the leaves' tier an aggregation switch, above it a core of its plane. On a busy fabric there is
// often none.
// Idea: the alternating chain of edge colouring (see KempeChains), between the blocks of one tier,
// with tops for colours: top x has room at one block, y at the other, and the subflows on the chain
// exchange x and y. One that climbs higher leaves the switches above its old top, and is placed
// again above its new one, by a chain of that tier if need be. A subflow that finds all links of
// some path free ends the chain early.
// Invariant: moves on a tier change nothing below it, so what was found there stays true. A chain
// is first followed without moves. Then its subflows leave their paths, and are placed again from
// its end on. If one finds no room above, all is undone and the next chain is tried.
// Choice: all chains are followed up to a length that doubles until one ends; of those the one with
// the fewest bytes in flight, then the fewest moves, by what is free above now.
// Guarantee: if the links of a tier are equal, none is dead, and no block is narrower upwards, a
// chain exists on each tier (see docs/decisions.md), so only budgets and the number of tries fail.
// Cost: a few words a tier if a path is free; else up to 16 chains for each subflow that needs one,
// and 0.2 to 0.3 us for each move (clos_bench starts).
//
// Deterministic. The view and the tables must outlive it. Calls other than IsPossible and Clear
// require IsPossible. Thread safety: one thread.
class TierChains {
 public:
  TierChains(const FabricView& view, SubflowTable& subflows, LinkTable& links)
      : view_(view), subflows_(subflows), links_(links) {}

  // To be called after the tables were cleared.
  void Clear() { walk_ = 0; }
  // Whether the fabric is such a Clos (TierRooms).
  bool IsPossible() const { return links_.rooms().is_on(); }

  // Insert places a subflow without a route, Relieve takes one subflow off a link above its limit.
  // The moves are made and returned by route, in the order of the chain: the last was made first
  // (valid until the next call). A subflow may move twice. None, without any change, if no chain is
  // found within the budget and `steps` (of about 10 ns; reduced by what is used).
  std::span<const SubflowMove> Insert(SubflowId subflow, const MoveBudget& budget,
                                      std::int64_t& steps);
  std::span<const SubflowMove> Relieve(std::uint32_t link, const MoveBudget& budget,
                                       std::int64_t& steps);

 private:
  static constexpr std::size_t kMaxChains = 16;
  static constexpr std::uint32_t kNoTop = 0xFFFF'FFFF;
  static constexpr std::uint32_t kMaxWalks = (1U << 30) - 1;

  using Ends = SubflowTable::Ends;
  // The subflow on the link between `block` and the top `from` moves to the top `to`, where the
  // block has room; the subflow that it displaces at its other end moves from `to` to `from`, and
  // so on. kNoTop: it can only move to a path that is free.
  struct Chain {
    std::uint32_t tier;  // of the block
    std::uint32_t block;
    bool sends;
    std::uint32_t from;  // labels of the parent
    std::uint32_t to;
  };
  struct Chains {
    std::array<Chain, kMaxChains> list;
    std::size_t size = 0;
  };
  // Where room is made: for a subflow with these ends, above their top `lower` of this tier. Moves
  // change nothing below.
  struct Scope {
    Ends ends;
    std::uint32_t tier;
    std::uint32_t lower;
  };
  struct Step {
    SubflowId subflow;
    std::uint32_t tier;   // it takes `label` above its blocks of this tier
    std::uint32_t label;  // of the tier above
    bool is_path;         // `label` is a whole path that is free
    std::int32_t before;  // its route before the chain is made
  };
  enum class Walk { kFound, kTooLong, kBlocked };

  const fabric::FoldedClos& clos() const { return *view_.folded_clos(); }
  std::uint32_t WidthAbove(std::uint32_t block) const {
    return clos().blocks[clos().blocks[block].parent].width;
  }
  std::uint32_t LinkOf(std::uint32_t block, bool sends, std::uint32_t label) const {
    const auto& of = clos().blocks[block];
    return sends ? clos().UpLink(of, label) : clos().DownLink(of, label);
  }
  // The tops with room at both blocks of a tier, above their top `lower`.
  std::uint64_t Both(const Ends& ends, std::uint32_t tier, std::uint32_t lower) const {
    return links_.rooms().At(ends.from[tier], lower, true) &
           links_.rooms().At(ends.to[tier], lower, false);
  }
  // A path whose links from this tier upwards have room, above the top `lower`; or kNoPath.
  std::int32_t FindFree(const Ends& ends, std::uint32_t tier, std::uint32_t lower) const;
  // As FindFree, if need be by moves, which are in log_ afterwards.
  std::int32_t MakeRoom(const Ends& ends, std::uint32_t tier, std::uint32_t lower);
  // Adds the chains of this tier and of those above it.
  void Collect(const Ends& ends, std::uint32_t tier, std::uint32_t lower, Chains& chains) const;
  // Adds single moves to other planes: of a subflow that fills a top's links at both blocks, and,
  // if one block has no room at all, of those that fill its links.
  void CollectLeaving(const Ends& ends, std::uint32_t tier, std::uint32_t lower,
                      Chains& chains) const;
  void AddChain(const Chain& chain, Chains& chains) const;
  // Follows a chain of at most `length` moves without making them, and appends them to steps_.
  // `cost`: their number, and more for those for which nothing is free above.
  Walk Follow(const Chain& chain, const Scope& scope, std::size_t length, MoveBudget& budget,
              std::size_t& cost);
  // Makes the best chain that can be made; the path that it frees, or kNoPath, without any change.
  std::int32_t TryChains(const Ends& ends, std::uint32_t tier, std::uint32_t lower, Chains& chains);
  // Makes this chain; as TryChains, but moves that were made are in log_ in any case.
  std::int32_t MakeChain(const Chain& chain, const Scope& scope, std::size_t length);
  // Places the subflow of steps_[index], which is on no path; false, without any change, if that
  // fails.
  bool MakeStep(std::size_t index);
  // Takes back what is in log_ after `mark`.
  void Undo(std::size_t mark, const MoveBudget& budget);
  void Begin(std::int64_t share, const MoveBudget& budget, std::int64_t steps);

  const FabricView& view_;
  SubflowTable& subflows_;
  LinkTable& links_;
  std::int64_t share_ = 0;  // of all subflows that move
  std::int64_t steps_left_ = 0;
  int tries_ = 0;  // left: chains that fail while they are made, on all tiers
  MoveBudget left_;
  std::vector<Step> steps_;       // of the chains that are being made, one after the other
  std::vector<SubflowMove> log_;  // all moves so far
  std::uint32_t walk_ = 0;
};

}  // namespace espalier::controller
