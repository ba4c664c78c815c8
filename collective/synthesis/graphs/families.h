#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/synthesis/graphs/digraph.h"
#include "common/base/result.h"

namespace espalier::synthesis {

// A direct-connect network with what is known about its symmetry.
struct Network {
  Digraph graph;
  // An isomorphism to the transpose (reverse-symmetry, Definition 6): the arc (u, v) becomes
  // (reversal[v], reversal[u]). Empty if none is known.
  std::vector<std::int32_t> reversal;
};

// The families of networks of the dissertation (sections 3.6.2 and A.6, Table A.3).
// Errors of all: kInvalidArgument for parameters for which the family is not defined, and for more
// than kMaxNodes nodes.

Result<Network> BuildComplete(std::int64_t nodes);            // K_m, m >= 2
Result<Network> BuildCompleteBipartite(std::int64_t degree);  // K_{d,d}, d >= 2
// Rings of d / 2 parallel links to both neighbours (d even, m >= 3), or of d links to the next node
// only (m >= 2).
Result<Network> BuildBidirectionalRing(std::int64_t degree, std::int64_t nodes);
Result<Network> BuildUnidirectionalRing(std::int64_t degree, std::int64_t nodes);
// C(n, {a, ...}): i is linked to i + a and i - a for every offset a; 1 <= a < n / 2, distinct, and
// coprime together with n, so that the network is connected.
Result<Network> BuildCirculant(std::int64_t nodes, std::span<const std::int64_t> offsets);
// The pair of offsets {m, m + 1} with the least diameter, m (Theorem 22). nodes >= 7.
Result<std::vector<std::int64_t>> BestTwoOffsets(std::int64_t nodes);
// d + 2 nodes; i has arcs to i + 1, ..., i + d.
Result<Network> BuildDirectedCirculant(std::int64_t degree);
// Pi_{d,m} (Definition 16): arcs x -> -d x - a (mod m) for a = 1 ... d; m >= d + 1. With self-loops
// if m is no multiple of d + 1.
Result<Network> BuildGeneralizedKautz(std::int64_t degree, std::int64_t nodes);
// DBJ(d, n): d^n nodes, arcs x -> d x + a (mod d^n) for a = 0 ... d - 1; d >= 2. With self-loops.
Result<Network> BuildDeBruijn(std::int64_t degree, std::int64_t length);
// H(n, q): the n-th Cartesian power of K_q.
Result<Network> BuildHamming(std::int64_t dimension, std::int64_t size);
// The product of rings; a dimension of 2 is one link.
Result<Network> BuildTorusNetwork(std::span<const std::int64_t> dimensions);
// The Cartesian product (Definition 3): node (a, b) is a * |B| + b.
Result<Network> BuildProduct(const Network& a, const Network& b);

}  // namespace espalier::synthesis
