#include "agent/probe/train_packet.h"

#include <algorithm>

namespace espalier::agent {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kIpv4HeaderBytes = 20;
constexpr std::size_t kUdpHeaderBytes = 8;
constexpr std::size_t kTcpHeaderBytes = 20;
constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kRst = 0x04;

template <typename Number>
void Append(std::vector<std::uint8_t>& to, Number value) {
  for (std::size_t left = sizeof(Number); left > 0; --left) {
    to.push_back(static_cast<std::uint8_t>(value >> 8 * (left - 1)));
  }
}

template <typename Number>
Number Read(Bytes bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) value = value << 8U | bytes[at + i];
  return static_cast<Number>(value);
}

void AppendAddress(std::vector<std::uint8_t>& to, const IpAddress& address) {
  if (address.IsV4()) return Append(to, address.V4());
  to.insert(to.end(), address.bytes().begin(), address.bytes().end());
}

std::uint32_t Sum16(Bytes bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? static_cast<std::uint32_t>(bytes[i]) << 8 : bytes[i];
  }
  return sum;
}

// The Internet checksum over pseudo-header and segment (RFC 768, RFC 9293, RFC 8200 section 8.1).
// Over a segment with a correct checksum it is 0. Segments have at most 64 KiB.
std::uint16_t Checksum(const IpAddress& source, const IpAddress& destination, std::uint8_t protocol,
                       Bytes segment) {
  std::vector<std::uint8_t> addresses;
  AppendAddress(addresses, source);
  AppendAddress(addresses, destination);
  std::uint32_t sum =
      Sum16(addresses) + protocol + static_cast<std::uint32_t>(segment.size()) + Sum16(segment);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

void AppendIpHeader(std::vector<std::uint8_t>& to, const TrainPacket& packet,
                    std::size_t segment_bytes) {
  constexpr std::uint16_t kDontFragment = 0x4000;
  if (packet.destination.IsV4()) {
    Append(to, std::uint8_t{0x45});
    Append(to, packet.traffic_class);
    Append(to, static_cast<std::uint16_t>(kIpv4HeaderBytes + segment_bytes));
    Append(to, std::uint16_t{0});
    Append(to, kDontFragment);
    Append(to, packet.ttl);
    Append(to, packet.protocol);
    Append(to, std::uint16_t{0});
  } else {
    Append(to, 0x60000000U | static_cast<std::uint32_t>(packet.traffic_class) << 20);
    Append(to, static_cast<std::uint16_t>(segment_bytes));
    Append(to, packet.protocol);
    Append(to, packet.ttl);
  }
  AppendAddress(to, packet.source);
  AppendAddress(to, packet.destination);
}

}  // namespace

std::vector<std::uint8_t> BuildTrainPacket(const TrainPacket& packet, std::int64_t sent_ns) {
  const bool is_udp = packet.protocol == kUdp;
  const std::size_t header_bytes = is_udp ? kUdpHeaderBytes : kTcpHeaderBytes;
  const std::size_t segment_bytes = header_bytes + kTrainPayloadBytes;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(2 * segment_bytes + kTcpHeaderBytes);
  AppendIpHeader(bytes, packet, segment_bytes);
  const std::size_t ip_bytes = bytes.size();
  Append(bytes, packet.source_port);
  Append(bytes, packet.destination_port);
  if (is_udp) {
    Append(bytes, static_cast<std::uint16_t>(segment_bytes));
    Append(bytes, std::uint16_t{0});
  } else {
    Append(bytes, std::uint64_t{0});  // sequence number and acknowledgement
    Append(bytes, static_cast<std::uint16_t>(kTcpHeaderBytes / 4 << 12 | kRst));
    bytes.resize(ip_bytes + kTcpHeaderBytes, 0);
  }
  Append(bytes, kTrainMagic);
  Append(bytes, packet.number);
  Append(bytes, packet.index);
  Append(bytes, static_cast<std::uint64_t>(sent_ns));
  Append(bytes, packet.token);
  std::uint16_t checksum =
      Checksum(packet.source, packet.destination, packet.protocol, Bytes(bytes).subspan(ip_bytes));
  if (is_udp && checksum == 0) checksum = 0xFFFF;  // 0 would mean that there is none
  const std::size_t at = ip_bytes + (is_udp ? 6 : 16);
  bytes[at] = static_cast<std::uint8_t>(checksum >> 8);
  bytes[at + 1] = static_cast<std::uint8_t>(checksum);
  return bytes;
}

std::optional<TrainPayload> ParseTrainPayload(Bytes payload) {
  if (payload.size() != kTrainPayloadBytes || Read<std::uint32_t>(payload, 0) != kTrainMagic) {
    return std::nullopt;
  }
  return TrainPayload{.number = Read<std::uint64_t>(payload, 4),
                      .index = payload[12],
                      .sent_ns = static_cast<std::int64_t>(Read<std::uint64_t>(payload, 13)),
                      .token = Read<std::uint64_t>(payload, 21)};
}

std::optional<TrainSegment> ParseTrainSegmentV6(const IpAddress& source,
                                                const IpAddress& destination, Bytes segment) {
  if (segment.size() != kTcpHeaderBytes + kTrainPayloadBytes ||
      segment[12] >> 4 != kTcpHeaderBytes / 4 || (segment[13] & kRst) == 0) {
    return std::nullopt;
  }
  const std::optional<TrainPayload> payload = ParseTrainPayload(segment.subspan(kTcpHeaderBytes));
  if (!payload || Checksum(source, destination, kTcp, segment) != 0) return std::nullopt;
  return TrainSegment{.payload = *payload,
                      .source = source,
                      .destination = destination,
                      .source_port = Read<std::uint16_t>(segment, 0),
                      .destination_port = Read<std::uint16_t>(segment, 2)};
}

std::optional<TrainSegment> ParseTrainSegmentV4(Bytes packet) {
  if (packet.size() < kIpv4HeaderBytes || packet[0] >> 4 != 4) return std::nullopt;
  const std::size_t header_bytes = 4U * (packet[0] & 0xFU);
  const std::size_t packet_bytes = Read<std::uint16_t>(packet, 2);
  const bool is_fragment = (Read<std::uint16_t>(packet, 6) & 0x3FFF) != 0;
  if (header_bytes < kIpv4HeaderBytes || packet.size() < header_bytes ||
      packet.size() != packet_bytes || packet[9] != kTcp || is_fragment) {
    return std::nullopt;
  }
  const auto address = [&](std::size_t at) {
    return IpAddress::FromV4(Read<std::uint32_t>(packet, at));
  };
  std::optional<TrainSegment> segment =
      ParseTrainSegmentV6(address(12), address(16), packet.subspan(header_bytes));
  if (segment) segment->traffic_class = packet[1];
  return segment;
}

}  // namespace espalier::agent
