#pragma once

#include <cstdint>

#include "collective/synthesis/graphs/digraph.h"
#include "collective/synthesis/graphs/families.h"
#include "collective/synthesis/schedules/schedule.h"
#include "common/base/result.h"

namespace espalier::synthesis {

// Expansions of a network together with an allgather on it (dissertation, sections 3.5 and A.4). N
// and d are the nodes and the degree of the base; costs are in alpha and M/B.
// Errors of all: kInvalidArgument for a base that is not regular or has self-loops, and for n < 2;
// kResourceExhausted for more than kMaxNodes nodes, kMaxChunks chunks or kMaxSends sends.
// Preconditions: the schedule is an allgather for the graph; it need not be a BFB schedule.

// L(G): a node for each link, parallel ones too, and an arc for each pair of links in a row
// (Definition 12). d N nodes of degree d. The schedule (Definition 1) takes one step more, and
// T_B + 1/N at most; exactly that for a BFB schedule of a base in which each node has links to more
// than one node (Theorem 10). Nodes are in the order of Digraph::arcs.
Result<Network> BuildLineGraph(const Network& base);
Result<Schedule> ExpandToLineGraph(const Digraph& base, const Schedule& schedule);

// G * n: n copies of each node, each linked to all copies of its neighbours (Definition 13). n N
// nodes of degree n d. The schedule (Definition 2) takes one step more, and T_B + (n - 1) / (n N).
// Copy i of node u is u * n + i.
Result<Network> BuildDegreeExpansion(const Network& base, std::int64_t n);
Result<Schedule> ExpandDegree(const Digraph& base, const Schedule& schedule, std::int64_t n);

// The Cartesian power: N^n nodes of degree n d. The schedule (Definition 14) takes n times as many
// steps, and T_B N / (N - 1) (N^n - 1) / N^n. The last coordinate varies fastest.
Result<Network> BuildPower(const Network& base, std::int64_t n);
Result<Schedule> ExpandToPower(const Digraph& base, const Schedule& schedule, std::int64_t n);

// The network and its reverse together (section A.1.6): degree 2 d. Half of each shard follows the
// schedule and the other half its mirror image, at the same cost (less if links coincide).
// Errors: also kInvalidArgument without a known reversal.
Result<Network> BuildBidirectional(const Network& base);
Result<Schedule> ExpandToBidirectional(const Network& base, const Schedule& schedule);

}  // namespace espalier::synthesis
