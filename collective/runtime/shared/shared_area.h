#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/reduce/reduce.h"
#include "collective/runtime/shared/peer_memory.h"
#include "collective/runtime/shared/registered_memory.h"
#include "collective/runtime/shared/shared_protocol_kind.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/shm/shared_group.h"

// What the ranks of a group have in the memory that all of them see. What a peer writes there never
// leads outside what is shared, whatever it is; but where a peer's memory lies ("readable",
// "writable") is believed within a process, whose ranks are one program.
namespace espalier::runtime {

// Where one rank may be named, all of them.
inline constexpr int kAllRanks = -1;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kLine = 64;
// Outputs from here on would not stay in the caches anyway.
inline constexpr std::size_t kStreamFrom = 8 << 20;
// What is left of the line of a call.
inline constexpr std::size_t kSmallestBytes = 16;

// Element ranges are cut at lines, so that ranks do not write to one line, and streams stay
// aligned.
inline std::size_t RoundToLines(std::size_t elements, std::size_t element) {
  const std::size_t per_line = kLine / element;
  return (elements + per_line - 1) / per_line * per_line;
}
// How an output of so many bytes is stored.
inline reduce::Stores StoresFor(std::size_t bytes) {
  return bytes >= kStreamFrom ? reduce::Stores::kStreaming : reduce::Stores::kCached;
}

// A small call is a line or two that others fetch, and one where the data has room behind the tag.
struct alignas(2 * kLine) SharedCall {
  transport::Counter arrived;
  transport::MessageTag tag = {};
  std::byte smallest[kSmallestBytes];
  alignas(kLine) std::byte small[kMaxSmallBytes];
  RegisteredPlace input;
  RegisteredPlace output;
  // Where others may read the input in this rank's process; nowhere where that would go wrong.
  const std::byte* readable;
  std::byte* writable;     // where a broadcast's root may write
  std::uint8_t reads_all;  // not 0: it can
  std::uint8_t writes_all;
  // Of a long call, if this rank chooses.
  SharedProtocolKind way;
  std::uint8_t is_timed;  // not 0: it is

  std::byte* PlaceFor(std::size_t bytes) { return bytes <= kSmallestBytes ? smallest : small; }
};
static_assert(offsetof(SharedCall, small) == kLine, "the smallest calls are one line");

struct RankArea {
  MemoryOwner owner;         // before the first call
  std::size_t level2_bytes;  // as owner: of a core's own cache
  SharedCall calls[2];       // by the parity of the call
  transport::Signal barrier;
  transport::Signal published;  // pieces, of all calls
  transport::Signal consumed;
  alignas(kPage) std::byte slots[2 * kSlotBytes];
  std::byte results[2][kSlotBytes];  // by the parity of the piece
};

}  // namespace espalier::runtime
