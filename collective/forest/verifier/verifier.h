#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// What a sound plan does to the fabric, found again from its trees alone.
struct Findings {
  Heights heights;
  std::int64_t edges = 0;  // logical arcs in use, over all forests
  // Per phase and channel: how many trees cross it, and what it can carry.
  struct Load {
    std::int64_t trees = 0;
    std::int64_t capacity_bps = 0;
  };
  std::vector<std::vector<Load>> loads;
};

// Checks a plan against the topology, with nothing of the code that makes plans: it reads the two
// and nothing else.
//
//   1. ranks are different compute nodes of the topology; the phases are those of the collective,
//      up to the roots or down from them; every rank is the root of exactly k * weight trees, and
//      only one has a weight where the collective has one root;
//   2. every tree spans exactly the ranks, from its root;
//   3. every edge in use has routes for all its trees; each is a path over links that are UP, in
//      their direction, through nodes that are no compute nodes;
//   4. no channel carries more than its links give (what `available` says, where it is given);
//   5. the time claimed is the time that the loads give, exactly (on a share: or a longer one),
//      and the rates fit to it;
//   6. the bound claimed is that of the cut named (for a plan on a share: if that is given).
//
// available: what each direction of each link has, by DirectedLink::Index(); empty: its rate.
// threads: how many do the work; what is found, or refused, is the same for any number.
// Errors: kFailedPrecondition with the first violation, in the order above, by the names of the
// nodes; kResourceExhausted where exact products are past 127 bits.
// Complexity: O(classes * ranks + hops of all routes); 4 ms for 1,024 A100 GPUs, 90 ms for 4,096
// (BM_Verify). Memory: 512 bytes a rank.
Result<Findings> VerifySchedule(const fabric::Topology& topology, const TreeSchedule& plan,
                                std::span<const BitsPerSecond> available = {}, int threads = 1);

}  // namespace espalier::forest
