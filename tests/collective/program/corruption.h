#pragma once

#include <optional>
#include <random>

#include "collective/program/program.h"

namespace espalier::program {

enum class Corruption { kDroppedDependency, kSwappedSteps, kWrongPeer, kWrongPlace, kWrongOp };

// Returns the program with one random corruption; none if it offers no place for one. A dropped
// dependency is one that the order of blocks, other dependencies and messages do not imply.
std::optional<Program> Corrupt(const Program& program, Corruption corruption,
                               std::mt19937_64& random);

}  // namespace espalier::program
