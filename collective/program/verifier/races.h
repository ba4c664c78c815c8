#pragma once

#include <cstdint>
#include <optional>

#include "collective/program/verifier/execution.h"

namespace espalier::program {

// Finds two accesses to the same chunk of memory, one of them a write, that neither the order of a
// block, nor dependencies, nor messages put in an order: a race, even where this run was lucky.
// That a send waits for a free slot is not taken for an order, as another interpreter may have more
// slots. For a barrier it also checks that no rank can be through before every rank has begun.
// Vector clocks over the blocks of one rank at a time: time nodes x blocks, memory nodes x the
// blocks of a rank, both bounded by `budget`, which is lowered by them.
std::optional<Violation> FindRace(const Program& program, const ProgramIndex& index,
                                  const Execution& run, std::int64_t& budget);

}  // namespace espalier::program
