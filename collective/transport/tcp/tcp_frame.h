#pragma once

#include <cstdint>

#include "collective/transport/base/transport.h"

namespace espalier::transport {

// A TCP connection between ranks carries a stream of frames in each direction. A frame is a header
// followed by `bytes` bytes.
enum : std::uint32_t {
  kMessageFrame = 0x45534d31,
  kAbortFrame = 0x45534131,   // the last frame, with the reason of an abort
  kNoticeFrame = 0x45534e31,  // tells by its tag in which call the sender is; no bytes
};

struct FrameHeader {
  std::uint32_t kind = 0;
  // Of a notice: one more than the rank for which the sender waits in the end; 0: none.
  std::uint32_t awaited = 0;
  std::uint64_t bytes = 0;
  MessageTag tag = {};
};

}  // namespace espalier::transport
