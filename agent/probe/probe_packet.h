#pragma once

#include <cstdint>
#include <vector>

#include "agent/probe/probe_socket.h"

namespace espalier::agent {

// Builds the packet of a probe, from its IP header on: UDP, the BTH of an RC SEND Only, 4 * TTL
// bytes of padding from which the answer's TTL is read, and a correct ICRC. Over IPv4 the UDP
// checksum is zero, as NICs send it, and the kernel fills in the header checksum. Over IPv6 there
// is a UDP checksum, as hosts drop packets without one. Requires: source and destination of one
// family, TTL > 0, a queue pair number of 24 bits.
std::vector<std::uint8_t> BuildProbePacket(const Probe& probe, std::uint16_t identification);

// The UDP length of a probe, which switches quote in their answers.
constexpr std::uint16_t ProbeUdpBytes(std::uint8_t ttl) {
  return static_cast<std::uint16_t>(8 + 12 + 4 * ttl + 4);
}

}  // namespace espalier::agent
