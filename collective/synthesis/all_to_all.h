#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/forest/model/rational.h"
#include "collective/program/program.h"
#include "collective/synthesis/graphs/digraph.h"
#include "common/base/result.h"

namespace espalier::synthesis {

// An out-tree from a node to all others, along which a part of each of its messages goes.
struct RoutingTree {
  std::int32_t source = 0;
  forest::Rational share;            // of every message of the source; its shares sum to 1
  std::vector<std::int32_t> parent;  // by node; -1 at the source
};

// How much each node sends to each other, by source * nodes + destination: 0 ... kMaxDemand, and 0
// on the diagonal. Empty: 1 for every pair.
using Demand = std::vector<std::int64_t>;
constexpr std::int64_t kMaxDemand = std::int64_t{1} << 40;

// How fast every node can send to every other at the same time: the maximum concurrent flow
// (dissertation, section A.1.5, linear program (A.1)). A rate f lets each of the N (N - 1) pairs
// have f times its demand of the bandwidth of a link of capacity 1, so that all takes 1 / f of the
// time in which such a link carries a demand of 1.
struct AllToAll {
  forest::Rational rate;  // that the routing attains
  forest::Rational
      bound;  // that no routing exceeds; equal to the rate if that is proven to be best
  std::vector<RoutingTree> routing;  // by source
  Demand demand;
};

// The routing in synchronous steps: in step t, each message moves over the t-th link of its path.
struct AllToAllCost {
  std::int32_t steps = 0;  // T_L in alpha: the highest tree
  // T_B in the time that a link of capacity 1 takes for a demand of 1: summed over the steps, and
  // if the steps overlap, 1 / rate.
  forest::Rational stepwise;
  forest::Rational overlapped;
};
// Errors: kFailedPrecondition for routing that is not made of trees over the graph's arcs, or whose
// shares do not sum to 1; kResourceExhausted if exact sums exceed 127 bits.
Result<AllToAllCost> VerifyAllToAll(const Digraph& graph, const AllToAll& all);

// Lowers the routing to a program of an alltoall: rank n is node n. Nodes on the way keep parts of
// messages in scratch memory. A message is cut into as many parts as the shares need.
// Errors: kUnsupported for unequal demands; kResourceExhausted for more than 4,096 parts (ask
// ComputeAllToAll for fewer) and for a program that is too large.
Result<program::Program> MakeAllToAllProgram(const std::string& name, const AllToAll& all,
                                             std::int32_t nodes, int fifo_slots = 2);

}  // namespace espalier::synthesis
