#pragma once

#include <string>
#include <string_view>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Programs in the XML of MSCCL and RCCL (docs/formats.md). What a file does not say gets the
// default of MSCCL's interpreter; "reducescatter" and `outofplace`, which are RCCL's, are read
// too. Attributes that say nothing about what a program does are ignored. A broadcast or reduce
// has no root in these files. Whether the program is right is left to the verifier.
// Errors: kInvalidArgument "NAME:LINE:COL: what": bad XML, elements of another kind, numbers that
// are none or out of range, ranks, blocks or steps that are missing or there twice, a step that
// waits for one that does not announce itself (`hasdep`), types and collectives that no
// interpreter runs. Memory: some tens of bytes for each byte of the file.
Result<Program> ParseMscclXml(std::string_view text, std::string_view name);

// The program as both interpreters load it: a step that waits for several others is preceded by
// `nop`s. They give each connection two slots: verify with fifo_slots = 2 before.
// Of a program that Verify accepts. An alltonext, a barrier and what is expected of a custom
// collective are written as "custom", without a postcondition.
// Errors: kUnsupported for what MSCCL cannot say: counts of a reduce_scatter, more than 32
// channels, 216 blocks at a rank, 256 steps in a block, 71 chunks in a step.
Result<std::string> FormatMscclXml(const Program& program);

}  // namespace espalier::program
