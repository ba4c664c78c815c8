#pragma once

#include <string>

#include "collective/forest/plan.h"
#include "common/base/result.h"

namespace espalier::forest {

// The program of a plan that its verifier has passed, itself verified, as our JSON or as MSCCL's
// XML (docs/formats.md).
// Errors: those of MakeForestProgram and FormatMscclXml; kResourceExhausted where the program is
// too large to verify.
Result<std::string> FormatAsProgramJson(const Plan& plan);
Result<std::string> FormatAsMscclXml(const Plan& plan);

}  // namespace espalier::forest
