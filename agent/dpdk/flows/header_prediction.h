#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "agent/dpdk/flows/datapath_flow_table.h"
#include "agent/dpdk/flows/role.h"
#include "agent/dpdk/packet/source_port.h"

namespace espalier::dpdk {

// Header prediction, as Van Jacobson's for TCP: the next packet of a flow is
// most likely like the previous one, with the next PSN. Some 15 instructions compare it with the
// expected header. They show what parsing, matching, counting and the CRC tables would show in 100:
// that it is a whole RoCEv2 packet of this flow with the expected PSN, and how its change of port
// changes the ICRC. A packet that differs only in length and opcode is compared without them, and
// becomes the expected one. All other packets take the slow path, with the same result.
//
// The first core that predicts a header claims the line. Other cores never read the prediction, so
// packets of one flow on two cores are handled correctly.

// For 16 bytes from 2 before the UDP header on: ports, length, checksum, opcode and version count;
// the P_Key and the congestion bits do not.
inline constexpr HeaderWord kUdpMask = {0xFFFF'FFFF'FFFF'FFFF, 0x0000'0000'0FFF'FFFF};
// For 16 bytes of an IPv4 header without options from its second on: length, fragment bits (except
// "don't fragment"), protocol, and the addresses except two bytes that the other word has.
inline constexpr HeaderWord kIpv4Mask = {0xFF00'FF3F'0000'FFFF, 0xFFFF'FFFF'FFFF'0000};

// A byte is -1 where two words are equal, else 0.
using SameBytes = signed char __attribute__((vector_size(16)));
[[gnu::always_inline]] inline SameBytes Compare(HeaderWord a, HeaderWord b) {
  return reinterpret_cast<SameBytes>(a) == reinterpret_cast<SameBytes>(b);
}
[[gnu::always_inline]] inline bool AllSame(SameBytes same) {
#ifdef __SSE2__
  return _mm_movemask_epi8(reinterpret_cast<__m128i>(same)) == 0xFFFF;
#else
  const auto words = reinterpret_cast<HeaderWord>(same);
  return (words[0] & words[1]) == UINT64_MAX;
#endif
}

inline HeaderWord LoadHeader(const std::uint8_t* at) {
  HeaderWord word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

// A frame that may hold a RoCEv2 packet with its header at the usual place: the Ethernet type and
// IP version are right, and for IPv6 the next header. 20 bytes from `udp` on can be read.
struct Candidate {
  std::uint8_t* udp;  // null: no candidate
  const std::uint8_t* end;
  bool is_v4;
};

// Equals the hash of the packet that the frame may hold.
[[gnu::always_inline]] inline std::uint64_t HashOf(const Candidate& candidate) {
  const std::uint32_t number = Load32(candidate.udp + 12);
  return candidate.is_v4 ? HashV4(Load64(candidate.udp - 8), number)
                         : HashV6(candidate.udp - 32, number);
}

[[gnu::always_inline]] inline Candidate FindCandidate(std::uint8_t* frame, std::uint32_t bytes) {
  constexpr std::uint16_t kVlan = Swap16(0x8100);
  constexpr std::uint32_t kTypeAndVersion = 0x00FF'FFFF;
  constexpr std::uint32_t kIpv4 = 0x0045'0008;
  const std::uint8_t* const end = frame + bytes;
  if (bytes < kMinRoceFrame + 4) [[unlikely]]
    return {.udp = nullptr, .end = end, .is_v4 = true};
  std::uint8_t* type = frame + 12;
  std::uint32_t word = Load32(type);
  if ((word & kTypeAndVersion) == kIpv4) [[likely]]
    return {.udp = frame + 34, .end = end, .is_v4 = true};
  if (Load16(type) == kVlan) {
    type += 4;
    word = Load32(type);
    if ((word & kTypeAndVersion) == kIpv4) return {.udp = type + 22, .end = end, .is_v4 = true};
  }
  if ((word & 0x00F0'FFFF) == 0x0060'DD86 && type[8] == 17 && bytes >= kMinRoceFrame + 24) {
    return {.udp = type + 42, .end = end, .is_v4 = false};
  }
  return {.udp = nullptr, .end = end, .is_v4 = true};
}

// The core's part of FlowLine::prediction.
inline std::uint32_t ClaimOf(std::size_t core) {
  return static_cast<std::uint32_t>(core + 1) << 16;
}

// Returns queue pair and PSN as in FlowLine::next, with the acknowledgement request bit between
// them.
inline std::uint64_t QueuePairAndPsn(const std::uint8_t* udp) {
  return __builtin_bswap64(Load64(udp + 12));
}

// The two words leave out the source address of an IPv6 header. The index has compared half of a
// hash with it, and the destination's queue pair has only one peer.
inline HeaderWord LoadIp(const Candidate& packet) {
  return packet.is_v4 ? LoadHeader(packet.udp - 18) & kIpv4Mask : LoadHeader(packet.udp - 16);
}

// True if the packet has the predicted header. `port`: that of the line.
[[gnu::always_inline]] inline bool IsExpected(const FlowLine& line, const Candidate& packet,
                                              std::uint32_t claim, std::uint16_t port) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if ((claim | port) != line.prediction.load(kRelaxed)) return false;
  const std::uint8_t* const udp = packet.udp;
  SameBytes same = Compare(LoadHeader(udp - 2) & kUdpMask, line.udp);
  if (packet.is_v4) [[likely]] {
    same &= Compare(LoadHeader(udp - 18) & kIpv4Mask, line.ip);
  } else {
    same &= Compare(LoadHeader(udp - 16), line.ip);
    if (Load16(udp - 36) != Load16(udp + 4)) return false;
  }
  return AllSame(same) && QueuePairAndPsn(udp) == line.next.load(kRelaxed) &&
         udp + line.udp_bytes <= packet.end;
}

// Predicts a header like that of `packet`, and computes how its change of port changes the ICRC.
inline void ExpectLike(FlowLine& line, const Candidate& packet, std::uint16_t port,
                       const IcrcPatch& patch) {
  const std::uint8_t* const udp = packet.udp;
  const std::uint32_t udp_bytes = LoadBig16(udp + 4);
  line.udp = LoadHeader(udp - 2) & kUdpMask;
  line.ip = LoadIp(packet);
  line.udp_bytes = static_cast<std::uint16_t>(udp_bytes);
  const auto change = static_cast<std::uint16_t>(port == 0 ? 0 : port ^ Load16(udp));
  line.icrc_difference = patch.Difference(change, udp_bytes);
}

// Handles a packet for which IsExpected is false. Returns true, and predicts headers like this one,
// if only length and opcode differ and it is a whole packet of the flow with the expected PSN.
inline bool ExpectAlike(FlowLine& line, const Candidate& packet, std::uint32_t claim,
                        std::uint16_t port, const IcrcPatch& patch) {
  // These masks leave out the lengths and the opcode.
  constexpr HeaderWord kUdpSame = {0x0000'FFFF'FFFF'FFFF, 0x0000'0000'0F00'FFFF};
  constexpr HeaderWord kIpv4Same = {0xFFFF'FFFF'FFFF'0000, 0xFFFF'FFFF'FFFF'FFFF};
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const std::uint8_t* const udp = packet.udp;
  if ((claim | port) != line.prediction.load(kRelaxed) ||
      QueuePairAndPsn(udp) != line.next.load(kRelaxed)) {
    return false;
  }
  HeaderWord different = ((LoadHeader(udp - 2) & kUdpMask) ^ line.udp) & kUdpSame;
  const std::uint32_t udp_bytes = LoadBig16(udp + 4);
  if (packet.is_v4) {
    different |= ((LoadHeader(udp - 18) & kIpv4Mask) ^ line.ip) & kIpv4Same;
    if (LoadBig16(udp - 18) != udp_bytes + 20) return false;
  } else {
    different |= LoadHeader(udp - 16) ^ line.ip;
    if (LoadBig16(udp - 36) != udp_bytes) return false;
  }
  const auto opcode = static_cast<std::uint8_t>(line.udp[1] >> 16);
  const bool is_alike = (different[0] | different[1]) == 0 && udp_bytes % 4 == 0 &&
                        udp_bytes >= kMinRoceUdp && udp_bytes <= packet.end - udp &&
                        udp[8] != kSendOnly && kRoles[udp[8]] == kRoles[opcode];
  if (is_alike) ExpectLike(line, packet, port, patch);
  return is_alike;
}

// Predicts headers like that of `packet`. To be called after this packet of the flow was counted in
// order, and before it gets the port.
inline void Expect(FlowLine& line, const RocePacket& packet, std::uint32_t claim,
                   std::uint16_t port, const IcrcPatch& patch) {
  const bool is_plain = packet.udp - packet.ip == (packet.is_v4 ? 20 : 40);
  // A SEND of one packet may be a probe, so it is never predicted.
  if (!is_plain || Load16(packet.udp + 6) != 0 || packet.opcode() == kSendOnly) return;
  std::uint32_t seen = line.prediction.load(std::memory_order_relaxed);
  if (seen == 0 && line.prediction.compare_exchange_strong(seen, claim)) seen = claim;
  if ((seen & 0xFFFF'0000) != claim) return;
  ExpectLike(line, {.udp = packet.udp, .end = nullptr, .is_v4 = packet.is_v4}, port, patch);
  line.prediction.store(claim | port, std::memory_order_relaxed);
}

}  // namespace espalier::dpdk
