#pragma once

#include <cstdint>

// What travels between the traffic programs of one lab, in the byte order of the machine, which
// is the same at both ends.
namespace espalier::traffic {

inline constexpr std::uint32_t kMagic = 0x45535054;

// First on every TCP connection.
struct ConnectionHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t flow = 0;  // WorkloadFlow::index
};

// Before every segment's payload. The receiver answers a whole segment with its sequence number.
struct SegmentHeader {
  std::uint64_t sequence = 0;
  std::uint64_t length = 0;
};

// Starts every UDP datagram.
struct DatagramHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t flow = 0;
  std::uint64_t sequence = 0;
};

}  // namespace espalier::traffic
