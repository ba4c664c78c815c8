#include "agent/dpdk/packet/roce_packet.h"

namespace espalier::dpdk {
namespace {

constexpr std::uint32_t kBthBytes = 12;
constexpr std::uint32_t kXrcHeaderBytes = 4;
constexpr std::uint32_t kRethBytes = 16;

// Returns the offset of the UDP header from `ip` after options or extension headers, which are
// rare; none if this is no whole UDP packet.
std::optional<std::uint32_t> SkipIpv4Options(const std::uint8_t* ip, std::uint32_t bytes) {
  const std::uint32_t header = 4U * (ip[0] & 0xFU);
  if (ip[0] >> 4 != 4 || header < 20 || header > bytes) return std::nullopt;
  return header;
}

std::optional<std::uint32_t> SkipIpv6Extensions(const std::uint8_t* ip, std::uint32_t bytes) {
  constexpr std::uint8_t kHopByHop = 0;
  constexpr std::uint8_t kRouting = 43;
  constexpr std::uint8_t kDestinationOptions = 60;
  constexpr std::uint8_t kUdp = 17;
  constexpr int kMaxHeaders = 8;
  std::uint8_t next = ip[6];
  std::uint32_t at = 40;
  for (int headers = 0; next != kUdp; ++headers) {
    const bool can_skip = next == kHopByHop || next == kRouting || next == kDestinationOptions;
    if (!can_skip || headers == kMaxHeaders || at + 8 > bytes) return std::nullopt;
    next = ip[at];
    at += 8U * (1U + ip[at + 1]);
  }
  return at;
}

}  // namespace

std::optional<std::uint32_t> RocePacket::DmaBytes() const {
  const bool has_reth = operation() == kWriteFirst || operation() == kWriteOnly ||
                        operation() == kWriteOnlyImmediate || operation() == kReadRequest;
  if (!has_reth || (service() == Service::kUnreliable && operation() == kReadRequest)) {
    return std::nullopt;
  }
  std::uint32_t before = 0;
  if (service() == Service::kExtended) {
    before = kXrcHeaderBytes;
  } else if (service() != Service::kReliable && service() != Service::kUnreliable) {
    return std::nullopt;
  }
  if (payload_and_extended_headers() < before + kRethBytes) return std::nullopt;
  return LoadBig32(bth() + kBthBytes + before + 12);
}

bool RocePacket::IsSequenceNak() const {
  constexpr std::uint8_t kNakSequenceError = 0x60;
  return operation() == kAcknowledge && payload_and_extended_headers() >= 4 &&
         (bth()[kBthBytes] & 0x7F) == kNakSequenceError;
}

bool RocePacket::IsProbe() const {
  return opcode() == kSendOnly && psn() == 0 && !asks_for_acknowledgement() &&
         payload_and_extended_headers() == 4U * hop_limit();
}

RocePacket ParseAnyRoce(std::uint8_t* frame, std::uint32_t bytes) {
  constexpr std::uint16_t kIpv4 = Swap16(0x0800);
  constexpr std::uint16_t kIpv6 = Swap16(0x86DD);
  constexpr std::uint16_t kVlan = Swap16(0x8100);
  constexpr std::uint16_t kServiceVlan = Swap16(0x88A8);
  constexpr int kMaxTags = 4;

  if (bytes < kMinRoceFrame) return {};
  std::uint32_t type_at = 12;
  std::uint16_t type = Load16(frame + type_at);
  for (int tags = 0; type == kVlan || type == kServiceVlan; ++tags) {
    type_at += 4;
    if (tags == kMaxTags || type_at + (kMinRoceFrame - 12) > bytes) return {};
    type = Load16(frame + type_at);
  }
  std::uint8_t* const ip = frame + type_at + 2;
  bool is_v4 = true;
  std::uint32_t left = bytes - type_at - 2;  // at least 20 + kMinRoceUdp
  std::uint32_t ip_header = 20;
  if (type == kIpv4) {
    const std::uint32_t total = LoadBig16(ip + 2);
    constexpr std::uint16_t kFragmentBits = Swap16(0x3FFF);
    if (ip[9] != 17 || (Load16(ip + 6) & kFragmentBits) != 0 || total > left) {
      return {};
    }
    left = total;
    if (ip[0] != 0x45) [[unlikely]] {
      const std::optional<std::uint32_t> skipped = SkipIpv4Options(ip, left);
      if (!skipped) return {};
      ip_header = *skipped;
    }
  } else if (type == kIpv6) {
    const std::uint32_t total = 40U + LoadBig16(ip + 4);
    if (ip[0] >> 4 != 6 || total > left) return {};
    is_v4 = false;
    left = total;
    ip_header = 40;
    if (ip[6] != 17) [[unlikely]] {
      const std::optional<std::uint32_t> skipped = SkipIpv6Extensions(ip, left);
      if (!skipped) return {};
      ip_header = *skipped;
    }
  } else {
    return {};
  }
  if (left < ip_header + kMinRoceUdp) return {};
  std::uint8_t* const udp = ip + ip_header;
  const std::uint32_t udp_bytes = LoadBig16(udp + 4);
  constexpr std::uint16_t kPort = Swap16(kRoceV2UdpPort);
  const bool is_roce = Load16(udp + 2) == kPort && udp_bytes == left - ip_header &&
                       udp_bytes % 4 == 0 && (udp[9] & 0xF) == 0;
  if (!is_roce) return {};
  return {.ip = ip,
          .udp = udp,
          .udp_bytes = udp_bytes,
          .is_v4 = is_v4,
          .vlan_tags = static_cast<std::uint8_t>((type_at - 12) / 4)};
}

}  // namespace espalier::dpdk
