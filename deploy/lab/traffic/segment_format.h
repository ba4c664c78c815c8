#pragma once

#include <cstdint>

// The messages between the traffic programs of one lab, in the machine's byte order, which is the
// same at both ends.
namespace espalier::traffic {

inline constexpr std::uint32_t kMagic = 0x45535054;

// Begins every TCP connection.
struct ConnectionHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t flow = 0;  // WorkloadFlow::index
};

// Precedes every segment's payload. The receiver answers a whole segment with its sequence number.
struct SegmentHeader {
  std::uint64_t sequence = 0;
  std::uint64_t length = 0;
};

// Begins every UDP datagram.
struct DatagramHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t flow = 0;
  std::uint64_t sequence = 0;
};

}  // namespace espalier::traffic
