#pragma once

#include <string>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

struct MscclppOptions {
  // Ranks 0, 1, ... belong to the first node. Ranks of a node reach one another by memory channels,
  // others by port channels. 0: there is one node.
  int ranks_per_node = 0;
};

// Formats the program as an execution plan of MSCCL++ (its executor's JSON). That is one-sided:
// every message has its own place in the receiver's scratch buffer, where the sender puts it before
// it signals. A sender first waits until the receiver's block has started, so that an execution
// plan may run repeatedly. Dependencies between blocks are semaphores, one for each pair of blocks.
// Needs as much scratch memory as a rank receives. Supports sums only, as the executor does.
// Precondition: Verify accepts the program.
// Errors: kUnsupported for what the executor cannot do: a barrier, more than 64 operations in a
// block, min_bytes or max_bytes of more than 2^53.
Result<std::string> FormatMscclppJson(const Program& program, const MscclppOptions& options = {});

}  // namespace espalier::program
