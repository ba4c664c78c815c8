#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// The form in which programs go from the controller to their ranks: compact, without loss. Numbers
// are unsigned, 7 bits a byte, low ones first, the eighth bit set on all bytes but the last;
// docs/formats.md has their order.
inline constexpr std::uint32_t kProgramBytesVersion = 1;

// Linear in steps; about 7 bytes a step.
std::string EncodeProgram(const Program& program);

// Reads it back; whatever the bytes, memory stays in proportion to them. Whether the program is
// right is left to the verifier.
// Errors: kInvalidArgument for bytes that are no program of this version, or more than one.
Result<Program> DecodeProgram(std::string_view bytes);

}  // namespace espalier::program
