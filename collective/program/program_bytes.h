#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Encodes a program for the way from the controller to its ranks: compact and lossless. Numbers are
// unsigned, 7 bits per byte, low ones first, with the eighth bit set on all bytes but the last.
// docs/formats.md gives their order.
inline constexpr std::uint32_t kProgramBytesVersion = 1;

// Linear in the number of steps; about 7 bytes per step.
std::string EncodeProgram(const Program& program);

// Decodes a program. Memory stays proportional to the bytes, whatever they are. Whether the program
// is correct is left to the verifier.
// Errors: kInvalidArgument for bytes that are not exactly one program of this version.
Result<Program> DecodeProgram(std::string_view bytes);

}  // namespace espalier::program
