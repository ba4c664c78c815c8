#pragma once

#include "collective/program/passes/instruction_dag.h"
#include "common/base/result.h"

namespace espalier::program {

constexpr int kMaxChannels = 32;  // as many as MSCCL has

// Gives every communication edge a channel (GC3, section 5.2): the directed one, else the lowest
// that is valid for the whole chain of fused instructions that the edge belongs to. Parallel
// instances of an operation get channels that differ modulo their number. A channel is valid where
// no rank would have to pair one connection with two others, as a thread block has one of each
// direction; where none is, the chain is cut there, and its mark of fusion taken back.
// Needs the marks of ChooseFusions.
// Errors: kInvalidArgument for directives that lead above kMaxChannels.
Result<void> AssignChannels(InstructionDag& dag);

}  // namespace espalier::program
