#pragma once

#include <cstdint>
#include <vector>

#include "agent/dpdk/packet/roce_packet.h"
#include "common/os/large_memory.h"

namespace espalier::dpdk {

// Computes how a change of the UDP source port changes the invariant CRC of a RoCEv2 packet.
//
// A CRC is linear: crc(packet ^ difference) = crc(packet) ^ L(difference), where L starts from zero
// and does not complement. The difference is the two bytes of the port, followed by zeros up to the
// CRC. So L is the CRC of these two bytes, multiplied by x^(8 n) modulo the polynomial for the n
// bytes that follow. For each n this is a linear map of 16 bits: a table of 256 entries for each
// byte. Fields that the CRC takes as ones (TTL, UDP checksum, ...) do not differ, so options and
// extension headers do not matter. A wrong CRC stays wrong.
//
// Memory: 4.8 MiB of tables for packets up to kTabledBytes, of which each length in use needs 2 KiB
// in the cache; longer packets take some 50 times as long.
// Thread safety: immutable once built.
class IcrcPatch {
 public:
  // Bound on the UDP length; enough for a jumbo frame of 9,600 bytes.
  static constexpr std::uint32_t kTabledBytes = 9632;

  IcrcPatch();
  // Returns what to exclusive-or into the stored CRC (little-endian) when the two bytes of the
  // port, in memory order, change by `difference`. udp_bytes: a multiple of 4, at least 24.
  std::uint32_t Difference(std::uint16_t difference, std::uint32_t udp_bytes) const {
    if (udp_bytes >= kTabledBytes) [[unlikely]]
      return SlowDifference(difference, udp_bytes);
    const Tables& tables = tables_[udp_bytes / 4];
    return tables.first[difference & 0xFF] ^ tables.second[difference >> 8];
  }

 private:
  struct alignas(64) Tables {
    std::uint32_t first[256];
    std::uint32_t second[256];
  };
  static std::uint32_t SlowDifference(std::uint16_t difference, std::uint32_t udp_bytes);

  std::vector<Tables, LargePages<Tables>> tables_;
};

// Returns the UDP checksum after the packet's port and invariant CRC have changed (RFC 1624); all
// words in memory order. One's-complement sums do not depend on the byte order, and the CRC is at
// an even offset. Never returns zero, which would mean "no checksum".
inline std::uint16_t UpdatedChecksum(std::uint16_t checksum, std::uint16_t port_before,
                                     std::uint16_t port_after, std::uint32_t icrc_before,
                                     std::uint32_t icrc_after) {
  const auto inverse = [](std::uint32_t word) { return ~word & 0xFFFF; };
  std::uint32_t sum = inverse(checksum) + inverse(port_before) + port_after;
  sum += inverse(icrc_before) + inverse(icrc_before >> 16);
  sum += (icrc_after & 0xFFFF) + (icrc_after >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  const auto updated = static_cast<std::uint16_t>(~sum);
  return updated == 0 ? std::uint16_t{0xFFFF} : updated;
}

// Gives the packet a source port (in network order), and updates its invariant CRC and its UDP
// checksum, unless that is zero ("none"). Returns false if the packet had this port already.
// Complexity: O(1); tests/bench/dpdk_packet_bench.cc measures it together with parsing.
[[gnu::always_inline]] inline bool RewriteSourcePort(const RocePacket& packet,
                                                     std::uint16_t swapped_port,
                                                     const IcrcPatch& patch) {
  const std::uint16_t before = Load16(packet.udp);
  const auto difference = static_cast<std::uint16_t>(before ^ swapped_port);
  if (difference == 0) return false;
  const std::uint32_t icrc_before = Load32(packet.icrc());
  const std::uint32_t icrc_after = icrc_before ^ patch.Difference(difference, packet.udp_bytes);
  Store16(packet.udp, swapped_port);
  Store32(packet.icrc(), icrc_after);
  const std::uint16_t checksum = Load16(packet.udp + 6);
  if (checksum != 0) {
    Store16(packet.udp + 6,
            UpdatedChecksum(checksum, before, swapped_port, icrc_before, icrc_after));
  }
  return true;
}

}  // namespace espalier::dpdk
