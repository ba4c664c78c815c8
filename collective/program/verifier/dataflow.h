#pragma once

#include <cstdint>
#include <optional>

#include "collective/program/verifier/execution.h"

namespace espalier::program {

struct DataflowResult {
  std::optional<Violation> violation;
  // Whether every rank computes each result by the same expression (up to the order of the two
  // sides of a reduction), so that floating point gives the same bits everywhere.
  bool same_bits = true;
  // Of a broadcast or reduce that does not name one.
  int root = kNoRoot;
};

// Carries, for one placement, the set of input chunks that every chunk of memory is the reduction
// of through the run, and compares what is in the output in the end with the collective's
// postcondition. Which values steps see does not depend on the interleaving, if there is no race.
// `budget` bounds the ranges of ids that are touched and is lowered by them.
DataflowResult CheckDataflow(const Program& program, const ProgramIndex& index,
                             const Execution& run, bool in_place, std::int64_t& budget);

}  // namespace espalier::program
