#pragma once

#include "collective/algorithms/algorithm.h"

namespace espalier::algorithms {

// Allreduce on two binary trees, each with half of the data in k = `pieces` (4). Ranks with
// children in one tree are leaves of the other, so that every rank sends at most 2 S bytes. About 2
// lg P + 3 k steps.
Result<program::CollectiveSpec> DescribeAllReduceTrees(const AlgorithmOptions& options);
void BuildAllReduceTrees(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// broadcast_one_to_all (Gloo): 1 step, (P - 1) S bytes at the root.
Result<program::CollectiveSpec> DescribeBroadcast(const AlgorithmOptions& options);
void BuildBroadcastOneToAll(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// Binomial broadcast: ceil(lg P) steps, at most ceil(lg P) S bytes (at the root).
void BuildBroadcastBinomial(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// Binomial reduce: ceil(lg P) steps, S bytes.
Result<program::CollectiveSpec> DescribeReduce(const AlgorithmOptions& options);
void BuildReduceBinomial(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// Hierarchical broadcast and reduce (N nodes of G ranks): a binomial tree over the ranks of all
// nodes that have the place of the root in their nodes, and one in each node. ceil(lg N) + ceil(lg
// G) steps; each node but the root's receives (sends) S bytes once.
Result<program::CollectiveSpec> DescribeBroadcastHierarchical(const AlgorithmOptions& options);
void BuildBroadcastHierarchical(program::ProgramBuilder& builder, const AlgorithmOptions& options);
Result<program::CollectiveSpec> DescribeReduceHierarchical(const AlgorithmOptions& options);
void BuildReduceHierarchical(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// Returns the parent of a rank in the first of the two trees; -1 for the root, which is rank 0. Odd
// ranks are leaves.
int FirstTreeParent(int rank, int ranks);

}  // namespace espalier::algorithms
