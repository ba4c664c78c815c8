#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "agent/probe/probe_socket.h"

namespace espalier::agent {

// Reads answers to probes from ICMP messages; pure, safe for any bytes. An answer is "time exceeded
// in transit" or "port unreachable" that quotes, unfragmented and at least up to the end of its UDP
// header, a packet whose length is that of a probe. Everything else gives none: other "unreachable"
// messages come from switches without a route, and reveal nothing about the path.
//
// An answer has the mark that it quotes, which the reader has to compare: anybody can send ICMP.
// Some switches quote 8 bytes behind the IP header, or fill up the rest with zeros; then the mark
// has no nonce.
//
// Input: an IPv4 packet (RFC 792), as a raw socket returns it.
std::optional<ProbeReply> ParseIcmpV4(std::span<const std::uint8_t> packet);

// Input: an ICMPv6 message (RFC 4443), as a raw socket returns it, and its sender. Quotes with
// extension headers give none, as probes have no such headers.
std::optional<ProbeReply> ParseIcmpV6(const IpAddress& sender,
                                      std::span<const std::uint8_t> message);

}  // namespace espalier::agent
