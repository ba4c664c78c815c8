#pragma once

#include <cstdint>
#include <optional>

#include "collective/program/verifier/execution.h"

namespace espalier::program {

// Finds a race: two accesses to the same chunk of memory, one of them a write, that neither the
// order of a block, nor dependencies, nor messages put in an order, even if they did not collide in
// this run. Waiting for a free slot does not count as an order, as another interpreter may have
// more slots. For a barrier it also checks that no rank can finish before every rank has begun. It
// uses vector clocks over the blocks of one rank at a time. If dependencies within the ranks order
// all accesses, as in programs of this project's passes: time and memory the rank's nodes x its
// blocks, for each rank. Else, for each other rank, all nodes x the rank's blocks. Both are limited
// by `budget`, which is reduced by them.
std::optional<Violation> FindRace(const Program& program, const ProgramIndex& index,
                                  const Execution& run, std::int64_t& budget);

}  // namespace espalier::program
