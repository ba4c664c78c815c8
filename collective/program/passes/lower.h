#pragma once

#include "collective/program/builder.h"
#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

struct LowerOptions {
  // Messages that a connection is taken to hold: the program must not need more (1 and up).
  int fifo_slots = 2;
  bool fuse = true;
};

// From the Chunk DAG to the program that interpreters run (GC3, sections 4 and 5). Deadlock free
// by construction with fifo_slots or more slots: thread blocks follow one global order that never
// holds more messages. Where fused instructions have no such order (a ring with one slot), the
// program stays unfused, which always has one.
// Near-linear in operations x instances x chunks.
// Errors: kInvalidArgument for channels above the limit, kResourceExhausted for too many chunks.
Result<Program> Lower(const ChunkDag& chunks, const LowerOptions& options = {});

}  // namespace espalier::program
