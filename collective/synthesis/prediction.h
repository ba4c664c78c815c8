#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/rational.h"
#include "collective/synthesis/construction.h"
#include "common/base/result.h"

namespace espalier::synthesis {

// What the formulas of the families and expansions say about a construction's allgather, and which
// expansions apply to it.
struct Prediction {
  std::int64_t nodes = 0;
  std::int64_t degree = 0;
  std::int32_t steps = 0;  // T_L in alpha
  forest::Rational t_b;    // T_B in M/B
  bool is_exact = true;    // else T_B is an upper bound
  bool is_bfb = false;     // the schedule is the best BFB schedule
  bool is_simple = false;  // without parallel links and self-loops
  bool has_self_loops = false;
  bool branches = false;  // each node has links to more than one node
  bool is_bidirectional = false;
  bool is_reversible = false;  // isomorphic to its reverse, so that all collectives cost the same

  bool IsBandwidthOptimal() const { return t_b == forest::Rational(nodes - 1, nodes); }
};

// Predicts the cost from that of the parts. Generalised Kautz and de Bruijn graphs, circulants and
// products of factors that are not optimal have no formula, and their cost is computed.
// Errors: those of BuildNetwork.
Result<Prediction> Predict(const Construction& construction);
Result<Prediction> Predict(const Construction& construction, const std::vector<Prediction>& parts);

}  // namespace espalier::synthesis
