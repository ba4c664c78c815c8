#pragma once

#include "collective/program/builder.h"
#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

struct LowerOptions {
  // The number of messages that a connection is assumed to hold (at least 1); the program must not
  // need more.
  int fifo_slots = 2;
  bool fuse = true;
};

// Lowers the Chunk DAG to the program that interpreters run (GC3, sections 4 and 5). The program is
// free of deadlock by construction with fifo_slots or more slots: all thread blocks follow one
// global order in which no connection ever holds more messages. If fused instructions have no such
// order (a ring with one slot), the program stays unfused, which always has one. Near-linear in
// operations x instances x chunks.
// Errors: kInvalidArgument for channels above the limit, kResourceExhausted for too many chunks.
Result<Program> Lower(const ChunkDag& chunks, const LowerOptions& options = {});

}  // namespace espalier::program
