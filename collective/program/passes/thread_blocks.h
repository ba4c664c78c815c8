#pragma once

#include <cstdint>
#include <vector>

#include "collective/program/passes/instruction_dag.h"
#include "collective/program/program.h"

namespace espalier::program {

// Thread blocks for every (sending peer, receiving peer, channel) that instructions need, and the
// instructions on them in the given global order (GC3, section 5.2); local ones go to the block
// whose latest instruction is earliest. Processing edges between blocks become dependencies, but
// for those that follow from others.
std::vector<RankProgram> AssignThreadBlocks(const InstructionDag& dag,
                                            const std::vector<std::int32_t>& order);

}  // namespace espalier::program
