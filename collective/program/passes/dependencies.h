#pragma once

#include "collective/program/passes/instruction_dag.h"

namespace espalier::program {

// Finds the processing edges: read after write, write after read and write after write of the same
// memory of a rank, under the buffer placement in which most memory is shared. Also finds
// source_writer. Linear in the chunks that instructions touch.
void FindDependencies(InstructionDag& dag);

}  // namespace espalier::program
