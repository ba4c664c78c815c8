#pragma once

#include <cstdint>
#include <vector>

#include "agent/probe/probe_socket.h"

namespace espalier::agent {

// The packet of a probe, from its IP header on: UDP, a BTH of an RC SEND Only, 4 * TTL bytes of
// padding by which the answer names the TTL, and a correct ICRC. IPv4 with UDP checksum zero, as
// NICs send it (the kernel fills the header checksum in); IPv6 with a UDP checksum, as hosts drop
// it otherwise. Source and destination are of one family, TTL > 0, the queue pair has 24 bits.
std::vector<std::uint8_t> BuildProbePacket(const Probe& probe, std::uint16_t identification);

// UDP length of a probe: what a switch quotes of it.
constexpr std::uint16_t ProbeUdpBytes(std::uint8_t ttl) {
  return static_cast<std::uint16_t>(8 + 12 + 4 * ttl + 4);
}

}  // namespace espalier::agent
