#pragma once

#include <string>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"

namespace espalier::forest {

// The program of a plan that its verifier has passed, itself verified, as our JSON, as MSCCL's XML
// or as an execution plan of MSCCL++, all ranks on one node (docs/formats.md).
// Errors: those of MakeForestProgram, FormatMscclXml and FormatMscclppJson; kResourceExhausted
// where the program is too large to verify.
Result<std::string> FormatAsProgramJson(const TreeSchedule& plan);
Result<std::string> FormatAsMscclXml(const TreeSchedule& plan);
Result<std::string> FormatAsMscclppJson(const TreeSchedule& plan);

}  // namespace espalier::forest
