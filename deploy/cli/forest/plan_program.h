#pragma once

#include <string>

#include "collective/forest/model/plan.h"
#include "common/base/result.h"

namespace espalier::forest {

// The program of a plan that its verifier has passed, itself verified, as our JSON, as MSCCL's XML
// or as an execution plan of MSCCL++, all ranks on one node (docs/formats.md).
// Errors: those of MakeForestProgram, FormatMscclXml and FormatMscclppJson; kResourceExhausted
// where the program is too large to verify.
Result<std::string> FormatAsProgramJson(const Plan& plan);
Result<std::string> FormatAsMscclXml(const Plan& plan);
Result<std::string> FormatAsMscclppJson(const Plan& plan);

}  // namespace espalier::forest
