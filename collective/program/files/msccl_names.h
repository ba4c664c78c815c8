#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "collective/program/program.h"

namespace espalier::program {

// What MSCCL's interpreter takes.
constexpr int kMscclChannels = 32;
constexpr int kMscclBlocks = 216;
constexpr int kMscclSteps = 256;
constexpr int kMscclChunksInStep = 71;
constexpr std::int64_t kMscclMaxBytes = std::int64_t{1} << 27;

constexpr std::array<std::pair<Protocol, std::string_view>, 3> kProtocolNames = {{
    {Protocol::kSimple, "Simple"},
    {Protocol::kLl, "LL"},
    {Protocol::kLl128, "LL128"},
}};

}  // namespace espalier::program
