#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace espalier::dpdk {

// Updates of checksums rely on little-endian machines, which DPUs are, too.
static_assert(std::endian::native == std::endian::little);

// Read and write words of a packet in memory order, at any alignment.
inline std::uint16_t Load16(const std::uint8_t* at) {
  std::uint16_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
inline std::uint32_t Load32(const std::uint8_t* at) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
inline std::uint64_t Load64(const std::uint8_t* at) {
  std::uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
inline void Store16(std::uint8_t* at, std::uint16_t value) {
  std::memcpy(at, &value, sizeof(value));
}
inline void Store32(std::uint8_t* at, std::uint32_t value) {
  std::memcpy(at, &value, sizeof(value));
}

// Convert between network order and the machine's order.
constexpr std::uint16_t Swap16(std::uint16_t value) { return __builtin_bswap16(value); }
constexpr std::uint32_t Swap32(std::uint32_t value) { return __builtin_bswap32(value); }

inline std::uint16_t LoadBig16(const std::uint8_t* at) { return Swap16(Load16(at)); }
inline std::uint32_t LoadBig32(const std::uint8_t* at) { return Swap32(Load32(at)); }

}  // namespace espalier::dpdk
