#pragma once

#include <cstdint>

#include "collective/transport/base/transport.h"

namespace espalier::transport {

// A TCP connection between ranks is a stream of frames in each direction: a header and so many
// bytes.
enum : std::uint32_t {
  kMessageFrame = 0x45534d31,
  kAbortFrame = 0x45534131,   // the last one, with the reason for giving up
  kNoticeFrame = 0x45534e31,  // what the sender does, as its tag; without bytes
};

struct FrameHeader {
  std::uint32_t kind = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
  MessageTag tag = {};
};

}  // namespace espalier::transport
