#include "controller/telemetry/packet_key.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace espalier::telemetry {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint32_t kEthernetHeader = 1;
constexpr std::uint32_t kIpV4Header = 11;
constexpr std::uint32_t kIpV6Header = 12;
constexpr std::uint16_t kEtherV4 = 0x0800;
constexpr std::uint16_t kEtherV6 = 0x86DD;
constexpr std::uint16_t kVlan = 0x8100;
constexpr std::uint16_t kServiceVlan = 0x88A8;
constexpr std::uint16_t kRocePort = 4791;
constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint32_t kFrameOverhead = 18;  // Ethernet header and checksum

std::uint16_t U16(Bytes bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

// The IP packet in an Ethernet frame, and its type; empty for another one.
Bytes Unframe(Bytes frame, std::uint16_t& type) {
  std::size_t at = 12;
  for (int tags = 0; tags < 3 && frame.size() >= at + 2; ++tags) {
    type = U16(frame, at);
    at += 2;
    if (type != kVlan && type != kServiceVlan) return frame.subspan(at);
    at += 2;
  }
  return {};
}

// Reads ports, and the queue pair of RoCEv2, from what follows the IP header.
bool ReadTransport(Bytes bytes, PacketKey& key) {
  if (key.protocol != kTcp && key.protocol != kUdp) return true;
  if (bytes.size() < 4) return false;
  key.source_port = U16(bytes, 0);
  key.destination_port = U16(bytes, 2);
  constexpr std::size_t kUdpHeader = 8;
  const bool is_roce = key.protocol == kUdp && key.destination_port == kRocePort;
  if (!is_roce) return true;
  if (bytes.size() < kUdpHeader + 8) return false;
  key.queue_pair = std::uint32_t{bytes[kUdpHeader + 5]} << 16 |
                   std::uint32_t{bytes[kUdpHeader + 6]} << 8 | bytes[kUdpHeader + 7];
  return true;
}

// Both return the length of the whole IP packet, or 0 for one that says nothing.
std::uint32_t ReadV4(Bytes packet, PacketKey& key) {
  if (packet.size() < 20 || packet[0] >> 4 != 4) return 0;
  const std::size_t header = std::size_t{4} * (packet[0] & 0x0F);
  const bool is_first = (U16(packet, 6) & 0x1FFF) == 0;
  if (header < 20 || packet.size() < header || !is_first) return 0;
  const auto address = [&](std::size_t at) {
    return IpAddress::FromV4(std::uint32_t{U16(packet, at)} << 16 | U16(packet, at + 2));
  };
  key.protocol = packet[9];
  key.source = address(12);
  key.destination = address(16);
  return ReadTransport(packet.subspan(header), key) ? std::max<std::uint32_t>(U16(packet, 2), 1)
                                                    : 0;
}

std::uint32_t ReadV6(Bytes packet, PacketKey& key) {
  constexpr std::size_t kHeader = 40;
  if (packet.size() < kHeader || packet[0] >> 4 != 6) return 0;
  const auto address = [&](std::size_t at) {
    IpAddress::Bytes bytes{};
    std::memcpy(bytes.data(), packet.data() + at, bytes.size());
    return IpAddress(bytes);
  };
  key.protocol = packet[6];
  key.source = address(8);
  key.destination = address(24);
  return ReadTransport(packet.subspan(kHeader), key) ? kHeader + std::uint32_t{U16(packet, 4)} : 0;
}

}  // namespace

std::optional<SampledPacket> ReadSampledPacket(const SflowFlowSample& sample) {
  std::uint16_t type = 0;
  Bytes packet = sample.header;
  switch (sample.header_protocol) {
    case kEthernetHeader:
      packet = Unframe(sample.header, type);
      break;
    case kIpV4Header:
      type = kEtherV4;
      break;
    case kIpV6Header:
      type = kEtherV6;
      break;
    default:
      return std::nullopt;
  }
  SampledPacket read;
  std::uint32_t ip_bytes = 0;
  if (type == kEtherV4) ip_bytes = ReadV4(packet, read.key);
  if (type == kEtherV6) ip_bytes = ReadV6(packet, read.key);
  if (ip_bytes == 0) return std::nullopt;
  read.frame_bytes = std::max(sample.frame_bytes, ip_bytes + kFrameOverhead);
  return read;
}

std::uint64_t HashOf(const PacketKey& key, std::uint64_t seed) {
  const auto mix = [](std::uint64_t value) {
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93U;
    return value ^ value >> 32;
  };
  std::uint64_t hash = seed;
  for (const IpAddress* address : {&key.source, &key.destination}) {
    std::uint64_t half = 0;
    for (const std::size_t at : {std::size_t{0}, std::size_t{8}}) {
      std::memcpy(&half, address->bytes().data() + at, sizeof half);
      hash = mix(hash ^ half);
    }
  }
  const std::uint64_t ports = std::uint64_t{key.source_port} << 16 | key.destination_port;
  return mix(mix(hash ^ ports) ^ (std::uint64_t{key.queue_pair} << 8 | key.protocol));
}

}  // namespace espalier::telemetry
