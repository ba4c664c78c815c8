#pragma once

#include <cstdint>
#include <optional>

#include "collective/program/verifier/execution.h"

namespace espalier::program {

struct DataflowResult {
  std::optional<Violation> violation;
  // Whether every rank computes each result by the same expression (up to the order of the two
  // sides of a reduction), so that floating-point results are bit-identical.
  bool same_bits = true;
  // The root of a broadcast or reduce that does not name one.
  int root = kNoRoot;
};

// Follows the data through the run for one buffer placement: for every chunk of memory, the set of
// input chunks whose reduction it is. At the end it compares the output with the collective's
// postcondition. The values that steps see do not depend on the interleaving if there is no race.
// `budget` limits the ranges of ids that are touched and is reduced by them.
DataflowResult CheckDataflow(const Program& program, const ProgramIndex& index,
                             const Execution& run, bool in_place, std::int64_t& budget);

}  // namespace espalier::program
