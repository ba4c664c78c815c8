#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agent/probe/probe_socket.h"

namespace espalier::agent {

// The places of a probe's mark, from the UDP header on.
inline constexpr std::size_t kProbeChecksumAt = 6;
inline constexpr std::size_t kProbeNonceAt = 8 + 12;

// Builds the packet of a probe, from its IP header on: UDP with a checksum, the BTH of an RC SEND
// Only, 4 * TTL bytes of padding from which the answer's TTL is read and which begin with the
// nonce, and a correct ICRC. The kernel fills in the header checksum of IPv4. The packet sequence
// number is always zero: a random one could be what a queue pair expects. Requires: source and
// destination of one family, TTL > 0, a queue pair number of 24 bits.
std::vector<std::uint8_t> BuildProbePacket(const Probe& probe, std::uint16_t identification,
                                           std::uint32_t nonce);

// The mark that quotes of this packet contain.
ProbeMark MarkOf(std::span<const std::uint8_t> packet);

// The UDP length of a probe, which switches quote in their answers.
constexpr std::uint16_t ProbeUdpBytes(std::uint8_t ttl) {
  return static_cast<std::uint16_t>(8 + 12 + 4 * ttl + 4);
}

}  // namespace espalier::agent
