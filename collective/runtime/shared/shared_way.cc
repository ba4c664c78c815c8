#include "collective/runtime/shared/shared_way.h"

#include <algorithm>

namespace espalier::runtime {

std::string_view SharedWayName(SharedWay way) {
  constexpr std::string_view kNames[] = {"small", "slots", "streamed", "read"};
  return kNames[static_cast<std::size_t>(way)];
}

std::optional<SharedWay> FindSharedWay(std::string_view name) {
  for (const SharedWay way :
       {SharedWay::kSmall, SharedWay::kSlots, SharedWay::kStreamed, SharedWay::kRead}) {
    if (SharedWayName(way) == name) return way;
  }
  return std::nullopt;
}

// Rounds are meetings of all ranks, messages the flags of others that a rank looks at in them.
Work SharedWork(SharedWay way, int ranks, std::size_t bytes, int lanes) {
  const double turns = lanes > 0 ? std::max(1.0, 1.0 * ranks / lanes) : 1.0;
  const double size = static_cast<double>(bytes) * turns;
  const double peers = ranks - 1;
  if (way == SharedWay::kSmall) {
    return {.rounds = 1, .messages = peers * turns, .bytes = size, .reduced_bytes = size * ranks};
  }
  const std::size_t pieces = (bytes + kSlotBytes - 1) / kSlotBytes;
  const double rounds = static_cast<double>(pieces) +
                        2;  // the call's beginning; what is copied in and out at the ends
  return {.rounds = rounds,
          .messages = rounds * peers * turns,
          .bytes = size * peers / ranks + size,
          .reduced_bytes = size};
}

}  // namespace espalier::runtime
