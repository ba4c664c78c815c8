#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/address/ip_address.h"

namespace espalier::agent {

inline constexpr std::uint32_t kTrainMagic = 0x45'54'52'4E;  // "ETRN"
inline constexpr std::size_t kTrainPayloadBytes = 29;
// The last two bits of a traffic class (RFC 3168). Switches mark packets that can be marked where
// they drop the others.
inline constexpr std::uint8_t kEcnMask = 3;
inline constexpr std::uint8_t kEcnCapable = 2;      // ECT(0)
inline constexpr std::uint8_t kEcnExperienced = 3;  // CE

// What a packet of a probe train says of itself.
struct TrainPayload {
  std::uint64_t number = 0;  // of its train
  std::uint8_t index = 0;    // within its train
  std::int64_t sent_ns = 0;  // since 1970 by the sender's clock
  std::uint64_t token = 0;   // fabric::TrainToken
  bool operator==(const TrainPayload&) const = default;
};

// A packet of a probe train to send, without its time.
struct TrainPacket {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t protocol = 17;  // or 6
  std::uint8_t traffic_class = 0;
  std::uint8_t ttl = 16;
  std::uint64_t number = 0;
  std::uint8_t index = 0;
  std::uint64_t token = 0;
};

// Builds a packet from its IP header on: UDP, or a TCP segment with RST and the sequence number 0,
// which a kernel without such a connection ignores. The payload is big-endian: kTrainMagic, number,
// index, time and token. The checksum of UDP or TCP is correct; over IPv4 the kernel fills in the
// header's checksum and identification.
// Requires: source and destination of one family, protocol 6 or 17, TTL > 0.
std::vector<std::uint8_t> BuildTrainPacket(const TrainPacket& packet, std::int64_t sent_ns);

// Reads the payload of a UDP packet. Returns none if it is not that of a train. Any bytes are safe,
// here and below.
std::optional<TrainPayload> ParseTrainPayload(std::span<const std::uint8_t> payload);

struct TrainSegment {
  TrainPayload payload;
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t traffic_class = 0;  // over IPv4 only
};
// Reads an IPv4 packet, from its header on, with a TCP segment of a train. Returns none for others,
// fragments, and a wrong checksum of TCP.
std::optional<TrainSegment> ParseTrainSegmentV4(std::span<const std::uint8_t> packet);
// The same of a TCP segment that came over IPv6 between these addresses.
std::optional<TrainSegment> ParseTrainSegmentV6(const IpAddress& source,
                                                const IpAddress& destination,
                                                std::span<const std::uint8_t> segment);

}  // namespace espalier::agent
