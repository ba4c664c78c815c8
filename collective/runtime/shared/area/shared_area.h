#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/reduce/reduce.h"
#include "collective/runtime/shared/area/peer_memory.h"
#include "collective/runtime/shared/area/registered_memory.h"
#include "collective/runtime/shared/area/shared_protocol_kind.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/shm/shared_group.h"

// The layout of a group's shared memory: one area for each rank. Values that a peer writes there
// cannot make this rank access memory outside of what is shared. Exception: the addresses
// `readable` and `writable` are trusted between ranks of one process, which are one program.
namespace espalier::runtime {

// In place of a rank: all ranks.
inline constexpr int kAllRanks = -1;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kLine = 64;
// Outputs of at least this size exceed the caches and use streaming stores.
inline constexpr std::size_t kStreamFrom = 8 << 20;
// The bytes of data that fit in the cache line of a call's flag.
inline constexpr std::size_t kSmallestBytes = 16;

// Rounds a number of elements up to whole cache lines, so that two ranks never write to one line
// and streaming stores stay aligned.
inline std::size_t RoundToLines(std::size_t elements, std::size_t element) {
  const std::size_t per_line = kLine / element;
  return (elements + per_line - 1) / per_line * per_line;
}
// The kind of stores for an output of `bytes` bytes.
inline reduce::Stores StoresFor(std::size_t bytes) {
  return bytes >= kStreamFrom ? reduce::Stores::kStreaming : reduce::Stores::kCached;
}

// A rank's description of a call. A peer fetches one line for the smallest calls, whose data fits
// behind the tag, and further lines for the data of other small calls.
struct alignas(2 * kLine) SharedCall {
  transport::Counter arrived;
  transport::MessageTag tag = {};
  std::byte smallest[kSmallestBytes];
  alignas(kLine) std::byte small[kMaxSmallBytes];
  RegisteredPlace input;
  RegisteredPlace output;
  // The address of the input in this rank's process; null if peers must not read it there.
  const std::byte* readable;
  std::byte* writable;      // the address of the output, where peers may write
  std::uint8_t reads_all;   // 1: this rank can read all peers' memory
  std::uint8_t writes_all;  // 1: this rank can write all peers' memory
  // The choice for a long call; used if this rank is the chooser.
  SharedProtocolKind protocol;
  std::uint8_t is_timed;  // 1: the chooser times the call

  std::byte* PlaceFor(std::size_t bytes) { return bytes <= kSmallestBytes ? smallest : small; }
};
static_assert(offsetof(SharedCall, small) == kLine, "the smallest calls are one line");

struct RankArea {
  MemoryOwner owner;         // written before the first call
  std::size_t level2_bytes;  // of a core's second-level cache; written before the first call
  SharedCall calls[2];       // by the parity of the call
  transport::Signal barrier;
  transport::Signal published;  // pieces published in all calls so far
  transport::Signal consumed;   // pieces consumed in all calls so far
  alignas(kPage) std::byte slots[2 * kSlotBytes];
  std::byte results[2][kSlotBytes];  // by the parity of the piece
};

}  // namespace espalier::runtime
