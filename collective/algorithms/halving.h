#pragma once

#include "collective/algorithms/algorithm.h"

namespace espalier::algorithms {

// allreduce_halving_doubling (002): recursive vector halving with distance doubling reduces and
// scatters, the way back gathers. Any P as binary blocks (Thakur et al., 2005): blocks of the
// powers of two in P do that each on their own, and between the two phases the smaller block hands
// its results to the next larger one, and gets them back. 2 lg P steps and 2 S (P - 1) / P bytes
// where P is a power of two.
Result<program::CollectiveSpec> DescribeAllReduceHalvingDoubling(const AlgorithmOptions& options);
void BuildAllReduceHalvingDoubling(program::ProgramBuilder& builder,
                                   const AlgorithmOptions& options);

// Recursive doubling: in each step pairs, farther apart each time, exchange all that they have and
// both add it up, to the same bits as two sums are the same in either order. For small data: lg P
// steps, S lg P bytes; where P is no power of two, the ranks beyond it hand their data to others
// first and get the sum at last: two steps more.
Result<program::CollectiveSpec> DescribeAllReduceDoubling(const AlgorithmOptions& options);
void BuildAllReduceDoubling(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// reduce_scatter_halving_doubling (002): the first half of it, then the distribution that the
// user wants. Distances are halved too, so that the blocks end in the order of the ranks and the
// even distribution over a power of two needs no reordering: lg P steps, S (P - 1) / P bytes.
void BuildReduceScatterHalvingDoubling(program::ProgramBuilder& builder,
                                       const AlgorithmOptions& options);

// allreduce_bcube (002): P is the product of groups of at most B; in each step a rank exchanges
// with all others of one group. 2 x groups steps, 2 S (P - 1) / P bytes. (002 counts a rank's own
// part as sent: 2 sum of S / B^s.) Refuses P that has a prime factor above B.
Result<program::CollectiveSpec> DescribeAllReduceBcube(const AlgorithmOptions& options);
void BuildAllReduceBcube(program::ProgramBuilder& builder, const AlgorithmOptions& options);

// pairwise_exchange (002): C steps between 1 and lg P, in each of which pairs as of
// halving_doubling exchange S / C. P must be a power of two.
Result<program::CollectiveSpec> DescribePairwiseExchange(const AlgorithmOptions& options);
void BuildPairwiseExchange(program::ProgramBuilder& builder, const AlgorithmOptions& options);

}  // namespace espalier::algorithms
