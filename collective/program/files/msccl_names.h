#pragma once

#include <cstdint>

#include "collective/program/program.h"
#include "common/base/enum_names.h"

namespace espalier::program {

// The limits of MSCCL's interpreter.
constexpr int kMscclChannels = 32;
constexpr int kMscclBlocks = 216;
constexpr int kMscclSteps = 256;
constexpr int kMscclChunksInStep = 71;
constexpr std::int64_t kMscclMaxBytes = std::int64_t{1} << 27;

constexpr EnumNames<Protocol> kProtocolNames({
    {Protocol::kSimple, "Simple"},
    {Protocol::kLl, "LL"},
    {Protocol::kLl128, "LL128"},
});

}  // namespace espalier::program
