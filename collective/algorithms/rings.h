#pragma once

#include "collective/algorithms/algorithm.h"

namespace espalier::algorithms {

using program::CollectiveSpec;
using program::ProgramBuilder;

// allreduce_ring (Gloo): P - 1 steps, (P - 1) S bytes. Every rank's whole buffer goes once around;
// all ranks add the buffers up in the order of the ranks, so that the results are bit-identical, at
// the price of P - 1 buffers of scratch memory. For small data on few ranks.
Result<CollectiveSpec> DescribeAllReduceRing(const AlgorithmOptions& options);
void BuildAllReduceRing(ProgramBuilder& builder, const AlgorithmOptions& options);

// allreduce_ring_chunked (Gloo): k = `pieces` (2, as in Gloo) chunks for each rank go around twice:
// k (2P - 2) steps, 2 S (P - 1) / P bytes.
Result<CollectiveSpec> DescribeAllReduceRingChunked(const AlgorithmOptions& options);
void BuildAllReduceRingChunked(ProgramBuilder& builder, const AlgorithmOptions& options);

// A reduce_scatter ring: P - 1 steps, S (P - 1) / P bytes; any counts.
Result<CollectiveSpec> DescribeReduceScatter(const AlgorithmOptions& options);
void BuildReduceScatterRing(ProgramBuilder& builder, const AlgorithmOptions& options);

// An allgather ring: P - 1 steps, S (P - 1) / P bytes.
Result<CollectiveSpec> DescribeAllGather(const AlgorithmOptions& options);
void BuildAllGatherRing(ProgramBuilder& builder, const AlgorithmOptions& options);

// A pipelined broadcast along a chain of all ranks from the root on, in k = `pieces` (8): P - 2 + k
// steps, S bytes.
Result<CollectiveSpec> DescribeBroadcastPipelined(const AlgorithmOptions& options);
void BuildBroadcastPipelined(ProgramBuilder& builder, const AlgorithmOptions& options);

// Hierarchical allreduce (GC3, figure 3): N nodes of G ranks. Rings reduce within the nodes, then
// between ranks of equal index in their nodes, then gather within the nodes. 2 (G - 1) + 2 (N - 1)
// steps; 2 S (G - 1) / G bytes within nodes and 2 (S / G) (N - 1) / N between them.
Result<CollectiveSpec> DescribeAllReduceHierarchical(const AlgorithmOptions& options);
void BuildAllReduceHierarchical(ProgramBuilder& builder, const AlgorithmOptions& options);

// Hierarchical allgather: rings between ranks of equal index in their nodes, then within the nodes.
// (N - 1) + (G - 1) steps; S (N - 1) / (N G) bytes between nodes by a rank, S (G - 1) / G within.
Result<CollectiveSpec> DescribeAllGatherHierarchical(const AlgorithmOptions& options);
void BuildAllGatherHierarchical(ProgramBuilder& builder, const AlgorithmOptions& options);

// Hierarchical reduce_scatter: the reverse of the allgather.
Result<CollectiveSpec> DescribeReduceScatterHierarchical(const AlgorithmOptions& options);
void BuildReduceScatterHierarchical(ProgramBuilder& builder, const AlgorithmOptions& options);

}  // namespace espalier::algorithms
