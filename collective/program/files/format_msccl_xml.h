#pragma once

#include <string>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Formats the program as both interpreters load it: a step that waits for several others is
// preceded by `nop`s. They give each connection two slots, so verify with fifo_slots = 2 before. An
// alltonext, a barrier and a custom collective with expectations are written as "custom", without a
// postcondition.
// Precondition: Verify accepts the program.
// Errors: kUnsupported for what MSCCL cannot express: counts of a reduce_scatter, more than 32
// channels, 216 blocks at a rank, 256 steps in a block, 71 chunks in a step.
Result<std::string> FormatMscclXml(const Program& program);

}  // namespace espalier::program
