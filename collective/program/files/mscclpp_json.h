#pragma once

#include <string>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

struct MscclppOptions {
  // Ranks 0, 1, ... are one node's: they reach one another by memory channels, others by port
  // channels. 0: there is one node.
  int ranks_per_node = 0;
};

// The program as an execution plan of MSCCL++ (its executor's JSON), which is one-sided: every
// message has a place of its own in the receiver's scratch buffer, where the sender puts it before
// it signals. A sender first waits until the receiver's block has started, so that a plan may run
// again and again. Dependencies between blocks are semaphores, one for each pair of blocks.
// Needs as much scratch memory as a rank receives; sums only, as the executor has them.
// Of a program that Verify accepts.
// Errors: kUnsupported for what the executor cannot do: a barrier, more than 64 operations in a
// block, 2^53 bytes at most or at least.
Result<std::string> FormatMscclppJson(const Program& program, const MscclppOptions& options = {});

}  // namespace espalier::program
