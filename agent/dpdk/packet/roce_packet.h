#pragma once

#include <cstdint>
#include <optional>

#include "agent/dpdk/packet/bytes.h"

namespace espalier::dpdk {

// Operations of the base transport header (InfiniBand Architecture Specification, table 38): the
// upper three bits are the transport service, the lower five the operation.
enum class Service : std::uint8_t { kReliable = 0, kUnreliable = 1, kDatagram = 3, kExtended = 5 };
enum Operation : std::uint8_t {
  kSendFirst = 0x00,
  kSendOnly = 0x04,
  kWriteFirst = 0x06,
  kWriteOnly = 0x0A,
  kWriteOnlyImmediate = 0x0B,
  kReadRequest = 0x0C,
  kReadResponseFirst = 0x0D,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
};

constexpr std::uint32_t kPsnMask = 0xFFFFFF;

// A RoCEv2 packet in a frame; valid as long as the frame's bytes.
//
// Everything up to the invariant CRC is within the frame. The UDP length covers headers and CRC,
// ends where the IP packet ends, and is a multiple of four, as the payload of RoCE is. Later bytes
// (padding of short frames) are not part of the packet.
struct RocePacket {
  std::uint8_t* ip;
  std::uint8_t* udp;        // null: no packet
  std::uint32_t udp_bytes;  // its header and the CRC included
  bool is_v4;
  std::uint8_t vlan_tags;

  explicit operator bool() const { return udp != nullptr; }

  const std::uint8_t* bth() const { return udp + 8; }
  std::uint8_t* icrc() const { return udp + udp_bytes - 4; }
  std::uint16_t source_port() const { return LoadBig16(udp); }
  std::uint8_t opcode() const { return bth()[0]; }
  Service service() const { return static_cast<Service>(opcode() >> 5); }
  Operation operation() const { return static_cast<Operation>(opcode() & 0x1F); }
  std::uint32_t destination_qpn() const { return LoadBig32(bth() + 4) & 0xFFFFFF; }
  bool asks_for_acknowledgement() const { return (bth()[8] & 0x80) != 0; }
  std::uint32_t psn() const { return LoadBig32(bth() + 8) & kPsnMask; }
  std::uint32_t payload_and_extended_headers() const { return udp_bytes - 8 - 12 - 4; }
  std::uint8_t hop_limit() const { return is_v4 ? ip[8] : ip[7]; }

  // Returns the size of the RDMA message that begins with this packet: the DMA length of its RETH.
  // None without a RETH.
  std::optional<std::uint32_t> DmaBytes() const;
  // True for a negative acknowledgement for a PSN sequence error (syndrome of the AETH), after
  // which the sender retransmits.
  bool IsSequenceNak() const;
  // True for a probe of an agent (agent/probe), which must keep its source port.
  bool IsProbe() const;
};

constexpr std::uint16_t kRoceV2UdpPort = 4791;
constexpr std::uint32_t kMinRoceFrame = 14 + 20 + 8 + 12 + 4;
constexpr std::uint32_t kMinRoceUdp = 8 + 12 + 4;

// Finds the RoCEv2 packet in an Ethernet frame: up to four VLAN tags (802.1Q, 802.1ad), IPv4 with
// options or IPv6 with hop-by-hop, routing and destination options, UDP to port 4791, a base
// transport header of version 0. None for everything else: fragments, tunnels, encrypted or
// authenticated packets, inconsistent lengths, truncated frames.
//
// Never reads beyond frame + bytes, whatever the frame contains.
RocePacket ParseAnyRoce(std::uint8_t* frame, std::uint32_t bytes);

// 16 bytes of a packet, and the values that some of their bits must have.
using HeaderWord = std::uint64_t __attribute__((vector_size(16)));
struct HeaderPattern {
  HeaderWord mask;
  HeaderWord value;

  // Reads 16 bytes.
  [[gnu::always_inline]] bool Fits(const std::uint8_t* at) const {
    HeaderWord word;
    std::memcpy(&word, at, sizeof(word));
    word = (word ^ value) & mask;
    return (word[0] | word[1]) == 0;
  }
};

// Patterns from the Ethernet type on: type, version and header length, fragment bits, protocol.
inline constexpr HeaderPattern kPlainIpv4 = {{0x0000'0000'00FF'FFFF, 0x0000'0000'FF00'FF3F},
                                             {0x0000'0000'0045'0008, 0x0000'0000'1100'0000}};
inline constexpr HeaderPattern kPlainIpv6 = {{0x0000'0000'00F0'FFFF, 0x0000'0000'0000'00FF},
                                             {0x0000'0000'0060'DD86, 0x0000'0000'0000'0011}};
// A pattern from 6 bytes before the UDP header on: its destination port, a length that is a
// multiple of four, version 0 of the transport header.
inline constexpr HeaderPattern kRoceUdp = {{0x0000'0000'0000'0000, 0x0F00'0000'0300'FFFF},
                                           {0x0000'0000'0000'0000, 0x0000'0000'0000'B712}};

// Equals ParseAnyRoce, but fast for nearly all frames: whole IPv4 or IPv6 packets without options,
// with at most one VLAN tag. Checks two patterns and the lengths. Complexity: some 9 cycles
// (tests/bench/dpdk_packet_bench.cc).
[[gnu::always_inline]] inline RocePacket ParseRoce(std::uint8_t* frame, std::uint32_t bytes) {
  constexpr std::uint16_t kVlan = Swap16(0x8100);
  if (bytes < kMinRoceFrame + 4) [[unlikely]]
    return ParseAnyRoce(frame, bytes);
  std::uint8_t* const ip = frame + (Load16(frame + 12) == kVlan ? 18 : 14);
  const bool is_v4 = kPlainIpv4.Fits(ip - 2);
  std::uint8_t* udp = ip + 20;
  std::uint32_t total = LoadBig16(ip + 2);
  if (!is_v4) [[unlikely]] {
    if (!kPlainIpv6.Fits(ip - 2) || bytes < kMinRoceFrame + 24) return ParseAnyRoce(frame, bytes);
    udp = ip + 40;
    total = 40U + LoadBig16(ip + 4);
  }
  const std::uint32_t udp_bytes = LoadBig16(udp + 4);
  const auto before = static_cast<std::uint32_t>(udp - frame);
  // A length that is too short wraps around to a huge number.
  const bool is_roce = kRoceUdp.Fits(udp - 6) &&
                       udp_bytes + static_cast<std::uint32_t>(udp - ip) == total &&
                       udp_bytes - kMinRoceUdp <= bytes - before - kMinRoceUdp;
  if (!is_roce) [[unlikely]]
    return {};
  return {.ip = ip,
          .udp = udp,
          .udp_bytes = udp_bytes,
          .is_v4 = is_v4,
          .vlan_tags = static_cast<std::uint8_t>(ip == frame + 18 ? 1 : 0)};
}

}  // namespace espalier::dpdk
