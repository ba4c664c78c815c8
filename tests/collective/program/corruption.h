#pragma once

#include <optional>
#include <random>

#include "collective/program/program.h"

namespace espalier::program {

enum class Corruption { kDroppedDependency, kSwappedSteps, kWrongPeer, kWrongPlace, kWrongOp };

// The program with one thing wrong, drawn at random; none where it has nothing of the kind. A
// dropped dependency is one that the order of blocks, other dependencies and messages do not imply.
std::optional<Program> Corrupt(const Program& program, Corruption corruption,
                               std::mt19937_64& random);

}  // namespace espalier::program
