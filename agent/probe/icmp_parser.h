#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "agent/probe/probe_socket.h"

namespace espalier::agent {

// Reads answers to probes out of ICMP messages; pure, for bytes from anyone. An answer is "time
// exceeded in transit" or "port unreachable" that quotes, unfragmented and at least up to the end
// of its UDP header, a packet whose length is a probe's. Everything else is none: other
// unreachables come from switches that know no route, and say nothing of the path.
//
// Input: an IPv4 packet (RFC 792), as a raw socket gives it.
std::optional<ProbeReply> ParseIcmpV4(std::span<const std::uint8_t> packet);

// Input: an ICMPv6 message (RFC 4443), as a raw socket gives it, and its sender. Quotes with
// extension headers are none of ours.
std::optional<ProbeReply> ParseIcmpV6(const IpAddress& sender,
                                      std::span<const std::uint8_t> message);

}  // namespace espalier::agent
