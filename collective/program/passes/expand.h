#pragma once

#include "collective/program/builder.h"
#include "collective/program/passes/instruction_dag.h"

namespace espalier::program {

// Expands the Chunk DAG into an Instruction DAG without processing edges: a remote operation
// becomes a send and a receive, a local one a copy or a reduction. If operations are parallelized,
// all chunks are cut into the least common multiple of their numbers of instances.
// Errors: kResourceExhausted if that makes too many chunks or operations.
Result<InstructionDag> Expand(const ChunkDag& chunks);

}  // namespace espalier::program
