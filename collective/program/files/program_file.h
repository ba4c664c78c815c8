#pragma once

#include <string>
#include <string_view>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Formats a program as JSON, the project's complete format (docs/formats.md).
std::string FormatProgramJson(const Program& program);

// Parses a program from JSON. Whether the program is correct is left to the verifier.
// Errors: kInvalidArgument "NAME:LINE:COL: what" for bad JSON, unknown fields, values of a wrong
// type or out of range, and an invalid collective.
Result<Program> ParseProgramJson(std::string_view text, std::string_view name);

// Parses a program in the project's JSON or in MSCCL's XML, which its first character tells.
Result<Program> ParseProgram(std::string_view text, std::string_view name);
// As ParseProgram, from a file. Errors: also those of io::ReadFile.
Result<Program> ReadProgramFile(const std::string& path);

}  // namespace espalier::program
