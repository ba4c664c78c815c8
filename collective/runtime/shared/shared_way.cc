#include "collective/runtime/shared/shared_way.h"

#include <algorithm>

#include "common/base/enum_names.h"

namespace espalier::runtime {
namespace {

constexpr EnumNames<SharedWay> kWayNames({
    {SharedWay::kSmall, "small"},
    {SharedWay::kSlots, "slots"},
    {SharedWay::kStreamed, "streamed"},
    {SharedWay::kRead, "read"},
});

}  // namespace

std::string_view SharedWayName(SharedWay way) { return kWayNames.NameOf(way); }
std::optional<SharedWay> FindSharedWay(std::string_view name) { return kWayNames.Find(name); }

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
