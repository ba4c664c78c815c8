#pragma once

#include <string>
#include <string_view>

#include "collective/program/program.h"
#include "collective/program/verifier/verifier.h"
#include "common/base/result.h"

namespace espalier::program {

// Formats a program as JSON, the project's complete format (docs/formats.md).
std::string FormatProgramJson(const Program& program);

struct VerifiedProgram {
  // Without ranks if the file is an execution plan of MSCCL++ with a violation.
  Program program;
  Verdict verdict;
};

// Parses and verifies a program in the project's JSON, in MSCCL's XML or as an execution plan of
// MSCCL++, which its beginning shows. An execution plan is verified as it is, then lowered
// (plan_program.h) and verified again; so its signals and the results are both checked.
// Errors: those of the parsers (of JSON, kInvalidArgument "NAME:LINE:COL: what" for unknown fields,
// values of a wrong type or out of range, and an invalid collective); "NAME: what" with the code of
// ProgramBuilder and Lower for a plan that cannot be lowered.
Result<VerifiedProgram> ParseAndVerify(std::string_view text, std::string_view name,
                                       const VerifyOptions& options = {});
// As ParseAndVerify, from a file. Errors: also those of io::ReadFile.
Result<VerifiedProgram> ReadAndVerify(const std::string& path, const VerifyOptions& options = {});

}  // namespace espalier::program
