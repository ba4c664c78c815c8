#include "agent/probe/sockets/icmp_parser.h"

#include <algorithm>

#include "agent/probe/sockets/probe_packet.h"

namespace espalier::agent {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kMinIpv4HeaderBytes = 20;
constexpr std::size_t kIpv6HeaderBytes = 40;
constexpr std::size_t kIcmpHeaderBytes = 8;
constexpr std::size_t kUdpHeaderBytes = 8;
constexpr std::uint8_t kIcmp = 1;
constexpr std::uint8_t kUdp = 17;

std::uint16_t U16(Bytes bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

IpAddress AddressV4(Bytes bytes, std::size_t at) {
  return IpAddress::FromV4(static_cast<std::uint32_t>(U16(bytes, at)) << 16 | U16(bytes, at + 2));
}

IpAddress AddressV6(Bytes bytes, std::size_t at) {
  IpAddress::Bytes address;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), address.size(), address.begin());
  return IpAddress(address);
}

// Returns the bytes after a valid IPv4 header; none without such a header.
std::optional<Bytes> BehindIpv4Header(Bytes packet, std::uint8_t protocol) {
  if (packet.size() < kMinIpv4HeaderBytes || packet[0] >> 4 != 4) return std::nullopt;
  const std::size_t header = 4U * (packet[0] & 0xFU);
  const bool is_later_fragment = (U16(packet, 6) & 0x1FFF) != 0;
  if (header < kMinIpv4HeaderBytes || packet.size() < header || packet[9] != protocol ||
      is_later_fragment) {
    return std::nullopt;
  }
  return packet.subspan(header);
}

// Fills in ports, TTL and mark from the quoted UDP header on; returns false if it is not that of a
// probe.
bool ReadQuotedUdp(Bytes udp, ProbeReply& reply) {
  if (udp.size() < kUdpHeaderBytes) return false;
  const int padding = U16(udp, 4) - ProbeUdpBytes(0);
  if (padding <= 0 || padding % 4 != 0 || padding / 4 > 255) return false;
  reply.source_port = U16(udp, 0);
  reply.destination_port = U16(udp, 2);
  reply.ttl = static_cast<std::uint8_t>(padding / 4);
  reply.mark.head = U16(udp, kProbeChecksumAt);
  if (udp.size() >= kProbeNonceAt + sizeof(reply.mark.nonce)) {
    reply.mark.nonce =
        static_cast<std::uint32_t>(U16(udp, kProbeNonceAt)) << 16 | U16(udp, kProbeNonceAt + 2);
  }
  return true;
}

}  // namespace

std::optional<ProbeReply> ParseIcmpV4(Bytes packet) {
  constexpr std::uint8_t kUnreachable = 3;
  constexpr std::uint8_t kPortUnreachable = 3;
  constexpr std::uint8_t kTimeExceeded = 11;
  const std::optional<Bytes> icmp = BehindIpv4Header(packet, kIcmp);
  if (!icmp || icmp->size() < kIcmpHeaderBytes) return std::nullopt;
  const bool from_destination = (*icmp)[0] == kUnreachable && (*icmp)[1] == kPortUnreachable;
  const bool in_transit = (*icmp)[0] == kTimeExceeded && (*icmp)[1] == 0;
  if (!from_destination && !in_transit) return std::nullopt;
  const Bytes quote = icmp->subspan(kIcmpHeaderBytes);
  const std::optional<Bytes> udp = BehindIpv4Header(quote, kUdp);
  ProbeReply reply;
  if (!udp || !ReadQuotedUdp(*udp, reply)) return std::nullopt;
  reply.mark.head |= static_cast<std::uint32_t>(U16(quote, 4)) << 16;
  reply.source = AddressV4(quote, 12);
  reply.destination = AddressV4(quote, 16);
  reply.responder = AddressV4(packet, 12);
  reply.from_destination = from_destination;
  return reply;
}

std::optional<ProbeReply> ParseIcmpV6(const IpAddress& sender, Bytes message) {
  constexpr std::uint8_t kUnreachable = 1;
  constexpr std::uint8_t kPortUnreachable = 4;
  constexpr std::uint8_t kTimeExceeded = 3;
  if (message.size() < kIcmpHeaderBytes + kIpv6HeaderBytes) return std::nullopt;
  const bool from_destination = message[0] == kUnreachable && message[1] == kPortUnreachable;
  const bool in_transit = message[0] == kTimeExceeded && message[1] == 0;
  if (!from_destination && !in_transit) return std::nullopt;
  const Bytes quote = message.subspan(kIcmpHeaderBytes);
  if (quote[0] >> 4 != 6 || quote[6] != kUdp) return std::nullopt;
  ProbeReply reply;
  if (!ReadQuotedUdp(quote.subspan(kIpv6HeaderBytes), reply)) return std::nullopt;
  reply.source = AddressV6(quote, 8);
  reply.destination = AddressV6(quote, 24);
  reply.responder = sender;
  reply.from_destination = from_destination;
  return reply;
}

}  // namespace espalier::agent
