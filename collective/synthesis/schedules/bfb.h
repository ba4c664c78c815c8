#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/rational.h"
#include "collective/synthesis/graphs/digraph.h"
#include "collective/synthesis/schedules/schedule.h"
#include "common/base/result.h"

namespace espalier::synthesis {

// Breadth-first broadcast (BFB, dissertation sections 3.6 and A.5): in step t, every node u
// receives the whole shard of every node at distance t, from in-neighbours that are nearer to it by
// one hop. How much comes over which link is chosen so that the busiest link of each step carries
// least.
//
// For a node u and a step t, let the jobs be the nodes at distance t, and f(j) the links into u
// that can bring job j. The least load per capacity is
//   U(u, t) = max over sets P of links of (number of jobs j with f(j) within P) / capacity(P),
// which is Hall's condition for the transportation problem of the linear program (3.1). The loads
// of a step are allowed up to max_u U(u, t), and the problem is integral: with P chunks per shard,
// the least load is W(u, t) = ceil(P U(u, t)) on links of capacity 1. So no linear program is
// solved, and discrete schedules are optimal too. Links of different bandwidth are capacities; all
// have the same alpha.

struct BfbCost {
  std::int32_t steps = 0;                    // T_L in alpha: the diameter
  forest::Rational t_b;                      // T_B in M/B
  std::vector<forest::Rational> step_loads;  // by step: max over u of U(u, t)
};

// Computes the cost of the best BFB allgather. O(N^2 d), or O(N d^2) and from one
// node only if the network has translations: 1,024 nodes of degree 4 to 8 in less than 0.2 s, with
// translations in less than 1 ms (synthesis_bench).
// Errors: kFailedPrecondition for one node or a network that is not strongly connected;
// kUnsupported for more than 64 links into a node; kResourceExhausted if exact sums exceed 127
// bits.
Result<BfbCost> ComputeBfbCost(const Digraph& graph);

// Makes the best BFB allgather in `chunks` equal parts of each shard; 0: as many as it takes to
// attain ComputeBfbCost, at most the least common multiple of the steps' denominators. Each node
// receives each part once.
// Errors: those of ComputeBfbCost and Refine; kResourceExhausted for more than kMaxSends sends.
Result<Schedule> MakeBfbAllgather(const Digraph& graph, std::int64_t chunks = 0);

// The same for any collective. A reduce-scatter is the reverse of an allgather on the transpose
// (Corollary 1.1), an allreduce is both in turn.
// Errors: also kInvalidArgument for other collectives.
Result<Schedule> MakeBfbSchedule(const Digraph& graph, Collective collective,
                                 std::int64_t chunks = 0);

}  // namespace espalier::synthesis
