#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// The effects of a sound schedule on the fabric, recomputed from its trees alone.
struct Findings {
  Heights heights;
  std::int64_t edges = 0;  // logical arcs in use, over all forests
  // By phase and channel: how many trees cross it, and its capacity.
  struct Load {
    std::int64_t trees = 0;
    std::int64_t capacity_bps = 0;
  };
  std::vector<std::vector<Load>> loads;
};

// Checks a schedule against the topology. It is independent of the code that computes schedules: it
// reads only the schedule and the topology.
//
//   1. Ranks are distinct compute nodes of the topology. The phases are those of the collective,
//      up to the roots or down from them. Every rank is the root of exactly k * weight trees, and
//      only one rank has a weight if the collective has a root.
//   2. Every tree spans exactly the ranks, from its root.
//   3. Every edge in use has routes for all its trees. Each route is a path over links that are UP,
//      in their direction, through nodes other than compute nodes.
//   4. No channel carries more than its links provide (or `available`, if given).
//   5. The claimed time is exactly the time that the loads give (on a share: at least that time),
//      and the rates are consistent with it.
//   6. The claimed bound is that of the named cut (on a share: only if `available` is given).
//
// available: what each direction of each link has, by DirectedLink::Index(); empty: its rate.
// threads: the number of threads; the result is the same for any number.
// Errors: kFailedPrecondition with the first violation, in the order above, naming the nodes;
// kResourceExhausted if exact products exceed 127 bits.
// Complexity: O(classes * ranks + hops of all routes); 4 ms for 1,024 A100 GPUs, 90 ms for 4,096
// (BM_Verify).
// Memory: 512 bytes per rank.
Result<Findings> VerifySchedule(const fabric::Topology& topology, const TreeSchedule& schedule,
                                std::span<const BitsPerSecond> available = {}, int threads = 1);

}  // namespace espalier::forest
