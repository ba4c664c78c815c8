#pragma once

#include <string>
#include <string_view>

#include "collective/program/mscclpp/plan.h"
#include "collective/program/program.h"
#include "common/base/result.h"
#include "common/files/json.h"

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

// Whether a JSON document is an execution plan, as opposed to a program of the project's format.
bool IsMscclppPlan(const io::JsonValue& json);

// Reads an execution plan of any author. Fields that do not affect what a plan does are ignored.
// Whether the plan is correct is left to VerifyPlan.
// Errors: kInvalidArgument "NAME:LINE:COL: what" for values that are missing, of a wrong type or
// out of range; channels, buffers, semaphores and ranks that do not exist or do not fit together;
// sizes that differ between source and destination. kUnsupported, with the place, for what the
// verifier does not know: reductions other than sums, packets in a pipeline.
// Memory: some hundred bytes for each operation.
Result<ExecutionPlan> ParseMscclppJson(const io::JsonValue& json, std::string_view name);

}  // namespace espalier::program
