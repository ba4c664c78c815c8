#include "collective/runtime/shared/area/shared_protocol_kind.h"

#include <algorithm>

#include "common/base/enum_names.h"

namespace espalier::runtime {
namespace {

constexpr EnumNames<SharedProtocolKind> kProtocolNames({
    {SharedProtocolKind::kSmall, "small"},
    {SharedProtocolKind::kStaged, "staged"},
    {SharedProtocolKind::kStagedStreaming, "staged-streaming"},
    {SharedProtocolKind::kSingleCopy, "single-copy"},
});

}  // namespace

std::string_view SharedProtocolName(SharedProtocolKind protocol) {
  return kProtocolNames.NameOf(protocol);
}
std::optional<SharedProtocolKind> FindSharedProtocol(std::string_view name) {
  return kProtocolNames.Find(name);
}

// Rounds are barriers of all ranks; messages are the flags of peers that a rank reads in them.
Work SharedWork(SharedProtocolKind protocol, int ranks, std::size_t bytes, int lanes) {
  const double turns = lanes > 0 ? std::max(1.0, 1.0 * ranks / lanes) : 1.0;
  const double size = static_cast<double>(bytes) * turns;
  const double peers = ranks - 1;
  if (protocol == SharedProtocolKind::kSmall) {
    return {.rounds = 1, .messages = peers * turns, .bytes = size, .reduced_bytes = size * ranks};
  }
  const std::size_t pieces = (bytes + kSlotBytes - 1) / kSlotBytes;
  const double rounds =
      static_cast<double>(pieces) + 2;  // entering the call, and filling and draining the pipeline
  return {.rounds = rounds,
          .messages = rounds * peers * turns,
          .bytes = size * peers / ranks + size,
          .reduced_bytes = size};
}

}  // namespace espalier::runtime
