#pragma once

#include <string>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"

namespace espalier::forest {

// Formats the program of a verified tree schedule as Espalier's JSON, as MSCCL's XML or as an
// execution plan of MSCCL++ with all ranks on one node (docs/formats.md). The program is verified,
// too. Errors: those of MakeForestProgram, FormatMscclXml and FormatMscclppJson; kResourceExhausted
// if the program is too large to verify.
Result<std::string> FormatAsProgramJson(const TreeSchedule& schedule);
Result<std::string> FormatAsMscclXml(const TreeSchedule& schedule);
Result<std::string> FormatAsMscclppJson(const TreeSchedule& schedule);

}  // namespace espalier::forest
