#pragma once

#include "collective/program/builder.h"
#include "collective/program/passes/instruction_dag.h"

namespace espalier::program {

// Chunk DAG to Instruction DAG without processing edges: a remote operation becomes a send and a
// receive, a local one a copy or a reduction. Where operations are parallelized all chunks are cut
// into the least common multiple of their numbers of instances.
// Errors: kResourceExhausted where that makes more chunks or operations than fit.
Result<InstructionDag> Expand(const ChunkDag& chunks);

}  // namespace espalier::program
