#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "collective/runtime/choice/cost_model.h"

namespace espalier::runtime {

// The protocols for calls between private buffers (shared_collectives.h).
enum class SharedProtocolKind : std::uint8_t { kSmall, kStaged, kStagedStreaming, kSingleCopy };

constexpr std::size_t kMaxSmallBytes = 256 << 10;
constexpr std::size_t kSlotBytes = 1 << 20;

// "small", "staged", "staged-streaming", "single-copy".
std::string_view SharedProtocolName(SharedProtocolKind protocol);
std::optional<SharedProtocolKind> FindSharedProtocol(std::string_view name);
// The work of an allreduce of `bytes` bytes with kSmall or kStaged, for the cost model.
Work SharedWork(SharedProtocolKind protocol, int ranks, std::size_t bytes, int lanes);

}  // namespace espalier::runtime
