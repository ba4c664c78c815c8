#include "agent/probe/sockets/probe_packet.h"

#include <algorithm>
#include <span>

#include "agent/probe/sockets/icrc.h"

namespace espalier::agent {
namespace {

constexpr std::size_t kIpv4HeaderBytes = 20;
constexpr std::size_t kIpv6HeaderBytes = 40;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kRcSendOnly = 0x04;

// Appends big-endian fields.
class Writer {
 public:
  explicit Writer(std::vector<std::uint8_t>& to) : to_(to) {}
  Writer& U8(std::uint32_t value) {
    to_.push_back(static_cast<std::uint8_t>(value));
    return *this;
  }
  Writer& U16(std::uint32_t value) { return U8(value >> 8).U8(value); }
  Writer& U32(std::uint32_t value) { return U16(value >> 16).U16(value); }
  Writer& Bytes(std::span<const std::uint8_t> bytes) {
    to_.insert(to_.end(), bytes.begin(), bytes.end());
    return *this;
  }

 private:
  std::vector<std::uint8_t>& to_;
};

void WriteIpv4(Writer& writer, const Probe& probe, std::uint16_t identification) {
  constexpr std::uint32_t kDontFragment = 0x4000;
  writer.U8(0x45).U8(0).U16(kIpv4HeaderBytes + ProbeUdpBytes(probe.ttl));
  writer.U16(identification).U16(kDontFragment);
  writer.U8(probe.ttl).U8(kUdp).U16(0);
  writer.U32(probe.source.V4()).U32(probe.destination.V4());
}

void WriteIpv6(Writer& writer, const Probe& probe) {
  writer.U32(0x60000000).U16(ProbeUdpBytes(probe.ttl)).U8(kUdp).U8(probe.ttl);
  writer.Bytes(probe.source.bytes()).Bytes(probe.destination.bytes());
}

std::size_t IpBytes(std::span<const std::uint8_t> packet) {
  return packet[0] >> 4 == 4 ? kIpv4HeaderBytes : kIpv6HeaderBytes;
}

std::uint32_t Sum16(std::span<const std::uint8_t> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    sum += static_cast<std::uint32_t>(bytes[i]) << 8 | bytes[i + 1];
  }
  return sum;
}

// RFC 768; RFC 8200, section 8.1. All lengths of probes are even.
std::uint16_t UdpChecksum(std::span<const std::uint8_t> packet) {
  const bool is_v4 = packet[0] >> 4 == 4;
  const std::span<const std::uint8_t> addresses =
      is_v4 ? packet.subspan(12, 8) : packet.subspan(8, 32);
  const std::span<const std::uint8_t> udp = packet.subspan(IpBytes(packet));
  std::uint32_t sum = Sum16(addresses) + static_cast<std::uint32_t>(udp.size()) + kUdp + Sum16(udp);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  const auto checksum = static_cast<std::uint16_t>(~sum);
  return checksum == 0 ? std::uint16_t{0xFFFF} : checksum;
}

}  // namespace

std::vector<std::uint8_t> BuildProbePacket(const Probe& probe, std::uint16_t identification,
                                           std::uint32_t nonce) {
  const bool is_v4 = probe.destination.IsV4();
  const std::size_t ip_bytes = is_v4 ? kIpv4HeaderBytes : kIpv6HeaderBytes;
  std::vector<std::uint8_t> packet;
  packet.reserve(ip_bytes + ProbeUdpBytes(probe.ttl));
  Writer writer(packet);
  if (is_v4) {
    WriteIpv4(writer, probe, identification);
  } else {
    WriteIpv6(writer, probe);
  }
  writer.U16(probe.source_port).U16(probe.destination_port).U16(ProbeUdpBytes(probe.ttl)).U16(0);
  constexpr std::uint32_t kDefaultPartition = 0xFFFF;
  writer.U8(kRcSendOnly).U8(0).U16(kDefaultPartition).U32(probe.destination_qpn).U32(0);
  writer.U32(nonce);
  packet.resize(packet.size() + 4U * probe.ttl - sizeof(nonce), 0);
  const std::uint32_t icrc = ComputeIcrc(packet);  // does not cover the UDP checksum
  for (int shift = 0; shift < 32; shift += 8)
    packet.push_back(static_cast<std::uint8_t>(icrc >> shift));
  const std::uint16_t checksum = UdpChecksum(packet);
  packet[ip_bytes + kProbeChecksumAt] = static_cast<std::uint8_t>(checksum >> 8);
  packet[ip_bytes + kProbeChecksumAt + 1] = static_cast<std::uint8_t>(checksum);
  return packet;
}

ProbeMark MarkOf(std::span<const std::uint8_t> packet) {
  const auto word = [&](std::size_t at) {
    return static_cast<std::uint32_t>(packet[at]) << 8 | packet[at + 1];
  };
  const std::size_t udp = IpBytes(packet);
  const bool is_v4 = packet[0] >> 4 == 4;
  return {.head = (is_v4 ? word(4) << 16 : 0) | word(udp + kProbeChecksumAt),
          .nonce = word(udp + kProbeNonceAt) << 16 | word(udp + kProbeNonceAt + 2)};
}

}  // namespace espalier::agent
