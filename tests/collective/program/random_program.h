#pragma once

#include <cstdint>
#include <random>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Builds a program of random copies and reductions between 2 to 6 ranks, occasionally parallelized,
// aggregated and on directed channels, through the builder and the passes. A plain model of memory
// gives its postcondition (as a custom collective).
Result<Program> MakeRandomProgram(std::mt19937_64& random);

}  // namespace espalier::program
