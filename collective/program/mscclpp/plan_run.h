#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/program/mscclpp/plan.h"
#include "collective/program/verifier/structure.h"

namespace espalier::program {

// A transfer as it was performed: `part` of `parts` equal parts of its chunks.
struct PerformedTransfer {
  std::int32_t rank = 0;
  const PlanTransfer* transfer = nullptr;
  std::int32_t part = 0;
  std::int32_t parts = 1;
};

struct PlanRunResult {
  std::optional<Violation> violation;  // its step is the number of an operation
  // The transfers of one run in an order in which they may happen, without a violation.
  std::vector<PerformedTransfer> transfers;
  int parts = 1;  // into which chunks must be cut so that every transfer moves whole ones
};

// Problem: decide whether every interleaving of a plan does the same, and end.
//
// Idea: run the plan once on symbolic values, with a vector clock for each block. Signals, waits,
// semaphores, barriers and packets carry what their sender knows. Two accesses to a chunk, one of
// them a write, must be ordered by that knowledge, or they are a race, whether or not they collide
// in this run. Two blocks that signal on one channel, or wait on it, must be ordered too. So the
// k-th wait takes the k-th signal in every interleaving, and one run decides whether all end.
//
// A second run follows (a third one, where runs alternate in their scratch memory): a rank starts
// it as soon as it has ended the run before, as the executor does, and its caller has by then read
// the results and written new input. So a peer that still reads, or already writes, is a race.
// Transfers by port channels are actors of their own: they follow the block's earlier ones on the
// channel, and end with a flush or, for the receiver, with a signal on the same channel.
//
// What it does not see: sizes that chunks do not divide, and more pieces of a pipeline than
// kPipelinePieces.
//
// Returns the first violation: kDeadlock, kCountMismatch (signals or semaphores that are left
// over), kUninitialised, kDoubleReduction, kWritesInput, kRace, kStructure (barriers that do not
// fit), or kTooLarge beyond `budget` touched items. Whether the results are right is not checked
// here. Complexity: cells that are touched, plus synchronising operations x blocks. Source: this
// project; the semantics are those of MSCCL++'s executor.
PlanRunResult RunPlan(const ExecutionPlan& plan, std::int64_t budget);

}  // namespace espalier::program
