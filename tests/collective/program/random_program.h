#pragma once

#include <cstdint>
#include <random>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// A program of random copies and reductions between 2 to 6 ranks, parallelized, aggregated and on
// directed channels now and then, through the builder and the passes. Its postcondition (of a
// custom collective) is what a plain model of memory says that the operations leave.
Result<Program> MakeRandomProgram(std::mt19937_64& random);

}  // namespace espalier::program
