#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace espalier::agent {

// Computes the invariant CRC of a RoCEv2 packet (InfiniBand Architecture Specification, annex
// A17.3.3). It is the CRC-32 over eight bytes of ones and the packet from its IP header to the end
// of its payload. Fields that switches may change count as ones: IPv4 TOS, TTL and checksum, or
// IPv6 traffic class, flow label and hop limit; the UDP checksum; FECN, BECN and reserved bits of
// the BTH. The CRC follows the payload, least significant byte first.
//
// Input: an IPv4 (options allowed) or IPv6 (no extension headers) packet without its ICRC; at
// least IP, UDP and BTH headers (ESPALIER_CHECK).
std::uint32_t ComputeIcrc(std::span<const std::uint8_t> packet);

}  // namespace espalier::agent
