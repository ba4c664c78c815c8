#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "controller/routing/repair/limited_links.h"

namespace espalier::controller {

// Makes room for a subflow within the limits of a folded Clos by Kempe chains on every tier.
//
// Problem: a subflow needs, tier by tier, a top that both its blocks reach over links with room, on
// the leaves' tier a plane, above it a core of that plane.
// Idea: the alternating chain of edge colouring, between the blocks of one tier, with tops for
// colours. Top x has room at one end, y at the other; the subflows on the chain exchange x and y.
// One that climbs higher leaves its tops there and is placed again above its new top, by a chain of
// that tier if need be. Chains end where they would enter a dead link or meet a subflow again. A
// chain that fails is undone.
// Cost: microseconds if a tenth of the links is free. Deterministic. Thread safety: one thread.
class StageChains {
 public:
  StageChains(const FabricView& view, LimitedLinks& links) : view_(view), links_(links) {}

  // Places a subflow without a path; false, without any change, if no chain is found.
  bool Insert(std::uint32_t subflow);
  // The work since the last call, in steps of about 100 ns.
  std::int64_t TakeWork() { return std::exchange(work_, 0); }

 private:
  // A move of a chain: a subflow, and the top that it takes.
  struct Step {
    std::uint32_t subflow;
    std::uint32_t label;
  };

  // Whether both its blocks above `tier` have a link with room above this top of theirs; a chain of
  // that tier can do no more than exchange them.
  bool HasRoomAbove(std::uint32_t subflow, std::uint32_t tier, std::uint32_t label) const;
  bool InsertAbove(std::uint32_t subflow, std::uint32_t tier, std::uint32_t lower);
  // Places it above this top of the blocks above `tier`, or there if it climbs no higher.
  bool Finish(std::uint32_t subflow, std::uint32_t tier, std::uint32_t label);
  // Finds the subflows that have to move, so that a block's link to the top `label`, which is full,
  // has room: the first takes `other`, and so on.
  bool FindChain(std::uint32_t block, bool sends, std::uint32_t tier, std::uint32_t label,
                 std::uint32_t other, std::vector<Step>& chain);
  // Moves them; false if one of them then has no path above its new top.
  bool Flip(const std::vector<Step>& chain, std::uint32_t tier);
  std::uint32_t LinkOf(std::uint32_t block, bool sends, std::uint32_t label) const {
    const fabric::FoldedClos& clos = *view_.folded_clos();
    const auto& of = clos.blocks[block];
    return sends ? clos.UpLink(of, label) : clos.DownLink(of, label);
  }
  std::uint32_t BlockOf(std::uint32_t subflow, bool sends, std::uint32_t tier) const {
    const std::uint32_t leaf = sends ? links_.SourceOf(subflow) : links_.DestinationOf(subflow);
    return view_.folded_clos()->Ancestor(view_.FoldedLeaf(leaf), tier);
  }

  const FabricView& view_;
  LimitedLinks& links_;
  std::int64_t work_ = 0;
  int tries_ = 0;  // left for this subflow
  std::uint32_t chains_ = 0;
  std::vector<std::uint32_t> on_chain_;  // by subflow: the last chain that took it
  struct Scratch {
    std::vector<std::uint32_t> at_sender;  // tops over whose link there is room
    std::vector<std::uint32_t> at_receiver;
    std::vector<Step> chains[2];
  };
  std::vector<Scratch> scratch_;  // by tier; those of a tier call those above it only
};

}  // namespace espalier::controller
