#pragma once

#include <string_view>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Reads a program in the XML of MSCCL and RCCL (docs/formats.md). Missing values get the defaults
// of MSCCL's interpreter; RCCL's "reducescatter" and `outofplace` are accepted too. Attributes that
// do not affect what a program does are ignored. These files do not state the root of a broadcast
// or reduce. Whether the program is correct is left to the verifier.
// Errors: kInvalidArgument "NAME:LINE:COL: what" for bad XML; unexpected elements; numbers that are
// malformed or out of range; missing or repeated ranks, blocks or steps; a step that waits for one
// that does not announce itself (`hasdep`); types and collectives that no interpreter runs.
// Memory: some tens of bytes for each byte of the file.
Result<Program> ParseMscclXml(std::string_view text, std::string_view name);

}  // namespace espalier::program
