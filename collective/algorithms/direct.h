#pragma once

#include "collective/algorithms/algorithm.h"

namespace espalier::algorithms {

// All pairs (GC3, section 7.1.2): every rank gets its share from all others, reduces it in the
// order of the ranks beginning with its own, and sends the result to all. 2 steps, 2 S (P - 1) / P
// bytes.
Result<program::CollectiveSpec> DescribeAllReduceAllPairs(const AlgorithmOptions& options);
void BuildAllReduceAllPairs(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// Bruck's allgather: ceil(lg P) steps, S (P - 1) / P bytes, twice the data in local copies.
void BuildAllGatherBruck(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// Direct alltoall: every rank sends to every other. 1 step, S (P - 1) / P bytes. In place it uses
// scratch memory.
Result<program::CollectiveSpec> DescribeAllToAll(const AlgorithmOptions& options);
void BuildAllToAllDirect(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// Two-step alltoall (GC3, section 7.3): data for one rank of another node is first gathered on the
// own node's rank with the same index, which sends it on in one message. 2 steps.
Result<program::CollectiveSpec> DescribeAllToAllTwoStep(const AlgorithmOptions& options);
void BuildAllToAllTwoStep(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// AllToNext (GC3, section 7.4): rank r sends its data to rank r + 1. Between nodes, all ranks of
// both nodes carry a part of it: 3 steps.
Result<program::CollectiveSpec> DescribeAllToNext(const AlgorithmOptions& options);
void BuildAllToNext(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// barrier_all_to_all (Gloo): 1 step, P - 1 notifications by every rank. barrier_all_to_one (Gloo):
// 2 steps, 1 notification, P - 1 by the root.
Result<program::CollectiveSpec> DescribeBarrier(const AlgorithmOptions& options);
void BuildBarrierAllToAll(program::ProgramBuilder& builder, const AlgorithmOptions& options);
void BuildBarrierAllToOne(program::ProgramBuilder& builder, const AlgorithmOptions& options);

}  // namespace espalier::algorithms
