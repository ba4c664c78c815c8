#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/rational.h"
#include "collective/synthesis/graphs/digraph.h"
#include "collective/synthesis/schedules/schedule.h"
#include "common/base/result.h"

namespace espalier::synthesis {

using forest::Rational;

// The busiest link of one step: its load in shards, over its capacity.
struct StepLoad {
  Rational load;
  std::int32_t from = 0;
  std::int32_t to = 0;
};

// The exact cost of a schedule in the alpha-beta model (section 3.3.2), with M the data of all
// nodes and B = d * unit the bandwidth of a node.
struct ScheduleCost {
  std::int32_t steps = 0;             // T_L, in alpha
  Rational t_b;                       // T_B, in M/B
  std::vector<StepLoad> step_loads;   // by step
  std::int64_t duplicate_chunks = 0;  // that a node receives a second time, in an allgather
};

// Computes the cost of a schedule without checking that it is valid. O(sends x log of the degree).
// Errors: kFailedPrecondition for a send over a link that does not exist or outside the ranges of
// the schedule; kResourceExhausted if the exact sum exceeds 127 bits.
Result<ScheduleCost> ComputeCost(const Digraph& graph, const Schedule& schedule);

// Checks a schedule of any origin by following every part of every shard (Definition 4). In an
// allgather, a node sends only what it received in an earlier step, and at the end every node has
// every shard. In a reduce-scatter, every node sends its part of each shard exactly once, after the
// last one that it receives, so that each contribution is added exactly once. An allreduce is both
// in turn. Independent of the code that makes schedules and of the verifier of forests.
// Errors: those of ComputeCost; kFailedPrecondition with the first violation.
// O(sends x log sends) time, O(sends) memory.
Result<ScheduleCost> VerifySchedule(const Digraph& graph, const Schedule& schedule);

}  // namespace espalier::synthesis
