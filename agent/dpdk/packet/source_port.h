#pragma once

#include <cstdint>
#include <memory>

#include "agent/dpdk/packet/roce_packet.h"

namespace espalier::dpdk {

// What a change of the UDP source port does to the invariant CRC of a RoCEv2 packet.
//
// A CRC is linear: crc(packet ^ difference) = crc(packet) ^ L(difference), where L starts from zero
// and complements nothing. The difference is two bytes of the port and then zeros up to the CRC,
// so L is the CRC of these two bytes, multiplied by x^(8 n) modulo the polynomial for the n bytes
// that follow. For each n it is a linear map of 16 bits: four tables of 16 entries, one per four
// bits. What the CRC takes as ones (TTL, UDP checksum, ...) lies in neither packet's difference, so
// options and extension headers need no thought, and a packet whose CRC was wrong keeps a wrong
// one.
//
// Memory: 602 KiB of tables for packets up to kTabledBytes; longer ones take 15 times as long.
// Thread safety: immutable once built.
class IcrcPatch {
 public:
  // Of the UDP length: what a jumbo frame of 9,600 bytes holds.
  static constexpr std::uint32_t kTabledBytes = 9632;

  IcrcPatch();
  // What to exclusive-or into the stored CRC (little-endian) when the two bytes of the port, as
  // they lie in the packet, change by `difference`. udp_bytes: a multiple of 4, at least 24.
  std::uint32_t Difference(std::uint16_t difference, std::uint32_t udp_bytes) const {
    if (udp_bytes >= kTabledBytes) [[unlikely]]
      return SlowDifference(difference, udp_bytes);
    const Nibbles& tables = tables_[udp_bytes / 4];
    return tables.of[0][difference & 15] ^ tables.of[1][difference >> 4 & 15] ^
           tables.of[2][difference >> 8 & 15] ^ tables.of[3][difference >> 12];
  }

 private:
  struct alignas(64) Nibbles {
    std::uint32_t of[4][16];
  };
  static std::uint32_t SlowDifference(std::uint16_t difference, std::uint32_t udp_bytes);

  std::unique_ptr<Nibbles[]> tables_;
};

// Gives the packet a source port (host order), with its invariant CRC and, where it has one,
// its UDP checksum (RFC 1624; zero is "none" and stays so). False where it had that port.
// Complexity: O(1); tests/bench/dpdk_packet_bench.cc measures it with all that goes before.
[[gnu::always_inline]] inline bool RewriteSourcePort(const RocePacket& packet, std::uint16_t port,
                                                     const IcrcPatch& patch) {
  const std::uint16_t before = Load16(packet.udp);
  const std::uint16_t after = Swap16(port);
  const auto difference = static_cast<std::uint16_t>(before ^ after);
  if (difference == 0) return false;
  const std::uint32_t icrc_before = Load32(packet.icrc());
  const std::uint32_t icrc_after = icrc_before ^ patch.Difference(difference, packet.udp_bytes);
  Store16(packet.udp, after);
  Store32(packet.icrc(), icrc_after);
  const std::uint16_t checksum = Load16(packet.udp + 6);
  if (checksum == 0) return true;
  // One's-complement sums do not depend on the order of bytes, and the CRC lies at an even offset.
  const auto inverse = [](std::uint32_t word) { return ~word & 0xFFFF; };
  std::uint32_t sum = inverse(checksum) + inverse(before) + after;
  sum += inverse(icrc_before) + inverse(icrc_before >> 16);
  sum += (icrc_after & 0xFFFF) + (icrc_after >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  const auto updated = static_cast<std::uint16_t>(~sum);
  Store16(packet.udp + 6, updated == 0 ? std::uint16_t{0xFFFF} : updated);
  return true;
}

}  // namespace espalier::dpdk
