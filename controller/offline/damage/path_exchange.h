#pragma once

#include <span>
#include <vector>

#include "controller/routing/online_assigner.h"

namespace espalier::offline {

// Lets two subflows that send from one leaf, or to one, exchange their spines. So one of them takes
// the place of the other on the leaf's links, all of which carry what they carried before.
//
// At their other leaves the exchange may put links above their even share. The assigner then moves
// further subflows, by chains, but none of `stay`: subflows of the leaf that would have to share
// its other links. The caller says whether what comes out is good enough, and takes it back if not.
//
// Only on a 2-tier Clos (FabricView::clos). Complexity: O(stay), and that of
// OnlineAssigner::Rebalance. Deterministic. Thread safety: one thread.

// Makes the exchange and the moves that make room for it. Returns all moves in order; none, without
// any change, if one of the two has no usable path over the other's spine, or both have the same
// one. Both must have a path. `stay`: not pinned before, and not afterwards.
std::vector<controller::OnlineAssigner::Move> ExchangeSpines(
    const controller::FabricView& view, controller::OnlineAssigner& assigner,
    controller::SubflowId a, controller::SubflowId b, std::span<const controller::SubflowId> stay,
    const controller::OnlineAssigner::Options& options);
// Takes these moves back, which must be the last ones.
void TakeBack(controller::OnlineAssigner& assigner,
              std::span<const controller::OnlineAssigner::Move> moves);

}  // namespace espalier::offline
