#pragma once

#include <cstdint>
#include <vector>

#include "collective/synthesis/construction.h"
#include "collective/synthesis/prediction.h"
#include "common/base/result.h"

namespace espalier::synthesis {

struct FinderOptions {
  std::int64_t nodes = 0;
  std::int64_t degree = 0;
  bool bidirectional = false;  // only networks whose links go both ways
  // kAllgather, kReduceScatter or kAllreduce.
  Collective collective = Collective::kAllgather;
};

struct Candidate {
  Construction construction;
  Prediction prediction;   // of the allgather
  std::int64_t steps = 0;  // T_L of the collective, in alpha
  forest::Rational t_b;    // T_B of the collective, in M/B
};

// The bounds that no network of these nodes and degree beats, for the collective (section A.3): the
// Moore bound on the diameter, and the bandwidth of a node.
struct Bounds {
  std::int64_t steps = 0;
  forest::Rational t_b;
};
Bounds ComputeBounds(const FinderOptions& options);

// Finds the networks of so many nodes and that degree that are Pareto-efficient in (T_L, T_B)
// (section 3.5.4), in the order of their steps. It closes the families under the expansions from
// the bottom up, with the cost by formula, and keeps what no other network of the same size and
// degree beats that allows the same expansions.
//
// Beyond the text: where the formula of a degree expansion or a power can be beaten, the best BFB
// schedule of the expanded network is computed too. Networks that are not isomorphic to their
// reverse are used for reductions with the cost of the reverse, and not expanded for them.
// Errors: kInvalidArgument for fewer than 2 or more than kMaxFinderNodes nodes, a degree out of 1
// ... 64, or another collective; kNotFound if no construction is known. 2,000 nodes of degree 4 in
// less than 2 s (synthesis_bench).
constexpr std::int64_t kMaxFinderNodes = 4096;
Result<std::vector<Candidate>> FindNetworks(const FinderOptions& options);

}  // namespace espalier::synthesis
