#pragma once

#include <string_view>

#include "collective/program/mscclpp/plan.h"
#include "common/base/result.h"
#include "common/files/json.h"

namespace espalier::program {

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
