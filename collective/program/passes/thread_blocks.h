#pragma once

#include <cstdint>
#include <vector>

#include "collective/program/passes/instruction_dag.h"
#include "collective/program/program.h"

namespace espalier::program {

// Creates thread blocks for every (sending peer, receiving peer, channel) that instructions need,
// and assigns the instructions to them in the given global order (GC3, section 5.2). A local
// instruction goes to the block whose latest instruction is earliest. Processing edges between
// blocks become dependencies, except those that others imply.
std::vector<RankProgram> AssignThreadBlocks(const InstructionDag& dag,
                                            const std::vector<std::int32_t>& order);

}  // namespace espalier::program
