#pragma once

#include <cstdint>
#include <optional>

#include "agent/dpdk/packet/bytes.h"

namespace espalier::dpdk {

// Operations of the base transport header (InfiniBand Architecture Specification, table 38): the
// upper three bits are the transport service, the lower five say what the packet is.
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

// One RoCEv2 packet within a frame; valid as long as the frame's bytes.
//
// Everything up to the invariant CRC lies within the frame: the UDP length is a multiple of four,
// as the payload of RoCE is, covers headers and CRC, and ends where the IP packet ends. What lies
// behind (padding of short frames) is no part of it.
struct RocePacket {
  std::uint8_t* ip;
  std::uint8_t* udp;        // null: there is none
  std::uint32_t udp_bytes;  // its header and the CRC included
  bool is_v4;

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

  // Bytes that the message which begins with this packet moves by RDMA: the DMA length of its RETH.
  // None where there is no RETH.
  std::optional<std::uint32_t> DmaBytes() const;
  // Of an acknowledgement: the upper bits of the AETH's syndrome say "out of sequence, resend".
  bool IsSequenceNak() const;
  // A probe of an agent (agent/probe), which must keep the port that it was sent from.
  bool IsProbe() const;
};

constexpr std::uint16_t kRoceV2UdpPort = 4791;
constexpr std::uint32_t kMinRoceFrame = 14 + 20 + 8 + 12 + 4;
constexpr std::uint32_t kMinRoceUdp = 8 + 12 + 4;

// Those of the headers that are rare, aside from the quick way: options, extension headers. The
// UDP header's offset from `ip`, or none where this is no whole UDP packet.
std::optional<std::uint32_t> SkipIpv4Options(const std::uint8_t* ip, std::uint32_t bytes);
std::optional<std::uint32_t> SkipIpv6Extensions(const std::uint8_t* ip, std::uint32_t bytes);

// The RoCEv2 packet in an Ethernet frame: up to four VLAN tags (802.1Q, 802.1ad), IPv4 with options
// or IPv6 with hop-by-hop, routing and destination options, UDP to port 4791, a base transport
// header of version 0. None for everything else: fragments, tunnels, encrypted or authenticated
// packets, lengths that contradict each other, truncated frames.
//
// Reads nothing beyond frame + bytes, whatever is in it. Complexity: a few cycles; VLAN tags and
// IPv6 a few more (tests/bench/dpdk_packet_bench.cc).
[[gnu::always_inline]] inline RocePacket ParseRoce(std::uint8_t* frame, std::uint32_t bytes) {
  constexpr std::uint16_t kIpv4 = Swap16(0x0800);
  constexpr std::uint16_t kIpv6 = Swap16(0x86DD);
  constexpr std::uint16_t kVlan = Swap16(0x8100);
  constexpr std::uint16_t kServiceVlan = Swap16(0x88A8);
  constexpr int kMaxTags = 4;

  if (bytes < kMinRoceFrame) return {};
  std::uint32_t type_at = 12;
  std::uint16_t type = Load16(frame + type_at);
  for (int tags = 0; type == kVlan || type == kServiceVlan; ++tags) {
    type_at += 4;
    if (tags == kMaxTags || type_at + (kMinRoceFrame - 12) > bytes) return {};
    type = Load16(frame + type_at);
  }
  std::uint8_t* const ip = frame + type_at + 2;
  bool is_v4 = true;
  std::uint32_t left = bytes - type_at - 2;  // at least 20 + kMinRoceUdp
  std::uint32_t ip_header = 20;
  if (type == kIpv4) {
    const std::uint32_t total = LoadBig16(ip + 2);
    constexpr std::uint16_t kFragmentBits = Swap16(0x3FFF);
    if (ip[9] != 17 || (Load16(ip + 6) & kFragmentBits) != 0 || total > left) {
      return {};
    }
    left = total;
    if (ip[0] != 0x45) [[unlikely]] {
      const std::optional<std::uint32_t> skipped = SkipIpv4Options(ip, left);
      if (!skipped) return {};
      ip_header = *skipped;
    }
  } else if (type == kIpv6) {
    const std::uint32_t total = 40U + LoadBig16(ip + 4);
    if (ip[0] >> 4 != 6 || total > left) return {};
    is_v4 = false;
    left = total;
    ip_header = 40;
    if (ip[6] != 17) [[unlikely]] {
      const std::optional<std::uint32_t> skipped = SkipIpv6Extensions(ip, left);
      if (!skipped) return {};
      ip_header = *skipped;
    }
  } else {
    return {};
  }
  if (left < ip_header + kMinRoceUdp) return {};
  std::uint8_t* const udp = ip + ip_header;
  const std::uint32_t udp_bytes = LoadBig16(udp + 4);
  constexpr std::uint16_t kPort = Swap16(kRoceV2UdpPort);
  const bool is_roce = Load16(udp + 2) == kPort && udp_bytes == left - ip_header &&
                       udp_bytes % 4 == 0 && (udp[9] & 0xF) == 0;
  if (!is_roce) return {};
  return {.ip = ip, .udp = udp, .udp_bytes = udp_bytes, .is_v4 = is_v4};
}

}  // namespace espalier::dpdk
