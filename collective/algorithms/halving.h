#pragma once

#include "collective/algorithms/algorithm.h"

namespace espalier::algorithms {

// allreduce_halving_doubling (Gloo): recursive vector halving with distance doubling performs a
// reduce_scatter; the reverse steps gather. Any P is supported by binary blocks (Thakur et al.,
// 2005): each block, a power of two in P, runs this alone; between the two phases each smaller
// block hands its results to the next larger one and gets them back. 2 lg P steps and 2 S (P - 1) /
// P bytes if P is a power of two.
Result<program::CollectiveSpec> DescribeAllReduceHalvingDoubling(const AlgorithmOptions& options);
void BuildAllReduceHalvingDoubling(program::ProgramBuilder& builder,
                                   const AlgorithmOptions& options);

// Recursive doubling, for small data: in each step, pairs at doubling distances exchange all their
// data and both add it up; the results are bit-identical, as a + b = b + a. lg P steps, S lg P
// bytes. If P is not a power of two, the ranks beyond it first hand their data to others and
// receive the sum at the end: two more steps.
Result<program::CollectiveSpec> DescribeAllReduceDoubling(const AlgorithmOptions& options);
void BuildAllReduceDoubling(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// reduce_scatter_halving_doubling (Gloo): the first half of the allreduce, then the requested
// distribution. Distances are halved too, so the blocks end in the order of the ranks, and an even
// distribution over a power of two needs no reordering: lg P steps, S (P - 1) / P bytes.
void BuildReduceScatterHalvingDoubling(program::ProgramBuilder& builder,
                                       const AlgorithmOptions& options);

// allreduce_bcube (Gloo): P is the product of group sizes of at most B; in each step a rank
// exchanges with all others of one group. 2 x groups steps, 2 S (P - 1) / P bytes. (Gloo counts a
// rank's own part as sent: 2 sum of S / B^s.) Refuses P with a prime factor above B.
Result<program::CollectiveSpec> DescribeAllReduceBcube(const AlgorithmOptions& options);
void BuildAllReduceBcube(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// pairwise_exchange (Gloo): C steps, from 1 to lg P, in each of which the pairs of halving_doubling
// exchange S / C. P must be a power of two.
Result<program::CollectiveSpec> DescribePairwiseExchange(const AlgorithmOptions& options);
void BuildPairwiseExchange(program::ProgramBuilder& builder, const AlgorithmOptions& options);

}  // namespace espalier::algorithms
