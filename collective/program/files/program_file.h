#pragma once

#include <string>
#include <string_view>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Our own form of a program, with all that there is to say of one: JSON (docs/formats.md).
std::string FormatProgramJson(const Program& program);

// Reads it back. Whether the program is right is left to the verifier.
// Errors: kInvalidArgument "NAME:LINE:COL: what": bad JSON, unknown fields, values of another type
// or out of range, a collective that is none.
Result<Program> ParseProgramJson(std::string_view text, std::string_view name);

// A program in our JSON or in MSCCL's XML, told by its first character.
Result<Program> ParseProgram(std::string_view text, std::string_view name);
// Errors: those of io::ReadFile too.
Result<Program> ReadProgramFile(const std::string& path);

}  // namespace espalier::program
