#include "agent/probe/sockets/icrc.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"

namespace espalier::agent {
namespace {

constexpr std::size_t kIpv6HeaderBytes = 40;
constexpr std::size_t kUdpHeaderBytes = 8;
constexpr std::size_t kBthBytes = 12;
constexpr std::size_t kMaxMaskedBytes = 60 + kUdpHeaderBytes + kBthBytes;

constexpr std::array<std::uint32_t, 256> MakeCrcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = MakeCrcTable();

std::uint32_t Extend(std::uint32_t crc, std::span<const std::uint8_t> bytes) {
  for (const std::uint8_t byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ byte) & 0xFFU];
  return crc;
}

}  // namespace

std::uint32_t ComputeIcrc(std::span<const std::uint8_t> packet) {
  ESPALIER_CHECK(!packet.empty());
  const bool is_v4 = packet[0] >> 4 == 4;
  const std::size_t ip_bytes = is_v4 ? 4U * (packet[0] & 0xFU) : kIpv6HeaderBytes;
  const std::size_t head_bytes = ip_bytes + kUdpHeaderBytes + kBthBytes;
  ESPALIER_CHECK(packet.size() >= head_bytes, "bytes={}", packet.size());

  std::array<std::uint8_t, kMaxMaskedBytes> head;
  std::copy_n(packet.begin(), head_bytes, head.begin());
  if (is_v4) {
    for (const std::size_t masked : {1U, 8U, 10U, 11U}) head[masked] = 0xFF;
  } else {
    head[0] |= 0x0F;
    for (const std::size_t masked : {1U, 2U, 3U, 7U}) head[masked] = 0xFF;
  }
  for (const std::size_t masked : {6U, 7U}) head[ip_bytes + masked] = 0xFF;
  head[ip_bytes + kUdpHeaderBytes + 4] = 0xFF;

  constexpr std::array<std::uint8_t, 8> kMaskedLocalHeader = {0xFF, 0xFF, 0xFF, 0xFF,
                                                              0xFF, 0xFF, 0xFF, 0xFF};
  std::uint32_t crc = Extend(0xFFFFFFFFU, kMaskedLocalHeader);
  crc = Extend(crc, std::span(head).first(head_bytes));
  return ~Extend(crc, packet.subspan(head_bytes));
}

}  // namespace espalier::agent
