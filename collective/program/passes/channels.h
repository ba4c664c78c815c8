#pragma once

#include "collective/program/passes/instruction_dag.h"
#include "common/base/result.h"

namespace espalier::program {

constexpr int kMaxChannels = 32;  // MSCCL's number

// Assigns a channel to every communication edge (GC3, section 5.2): the directed one, else the
// lowest that is valid for the whole chain of fused instructions to which the edge belongs.
// Parallel instances of an operation get channels that differ modulo the number of instances. A
// channel is valid if no rank has to pair one connection with two others, as a thread block has one
// connection in each direction. If no channel is valid, the chain is cut there and its mark of
// fusion removed.
// Precondition: ChooseFusions has marked the pairs.
// Errors: kInvalidArgument for directives that lead beyond kMaxChannels.
Result<void> AssignChannels(InstructionDag& dag);

}  // namespace espalier::program
