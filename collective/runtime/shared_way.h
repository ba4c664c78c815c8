#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "collective/runtime/cost_model.h"

namespace espalier::runtime {

// How an allreduce between private buffers goes through shared memory (shared_collectives.h).
enum class SharedWay : std::uint8_t { kSmall, kSlots };

constexpr std::size_t kMostSmallBytes = 256 << 10;
constexpr std::size_t kSlotBytes = 1 << 20;

// "small", "slots".
std::string_view SharedWayName(SharedWay way);
std::optional<SharedWay> FindSharedWay(std::string_view name);
// What an allreduce of so many bytes asks that way.
Work SharedWork(SharedWay way, int ranks, std::size_t bytes, int lanes);

}  // namespace espalier::runtime
