#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/address/ip_address.h"
#include "controller/telemetry/sflow.h"

namespace espalier::telemetry {

// Whose packet a sampled one is. Queue pairs may share a source port, so the destination queue pair
// belongs to it (RoCEv2: the base transport header behind UDP port 4791, IBTA annex A17).
struct PacketKey {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint32_t queue_pair = 0;  // 0: no RoCEv2
  std::uint8_t protocol = 0;     // 6: TCP, 17: UDP, or another one without ports

  bool operator==(const PacketKey&) const = default;
};

struct SampledPacket {
  PacketKey key;
  std::uint32_t frame_bytes = 0;  // on the wire
};

// Reads the beginning of a sampled packet: Ethernet with up to two VLAN tags, IPv4 and IPv6 without
// extension headers, TCP, UDP, RoCEv2. None for anything else, for fragments but the first, and
// where the header was cut before the ports. Some agents give the captured length as that of the
// frame, so the length in the IP header counts if it is greater. Pure.
std::optional<SampledPacket> ReadSampledPacket(const SflowFlowSample& sample);

// A hash of the key. Senders choose keys, so a secret seed keeps them from choosing collisions.
std::uint64_t HashOf(const PacketKey& key, std::uint64_t seed);

}  // namespace espalier::telemetry
