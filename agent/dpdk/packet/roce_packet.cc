#include "agent/dpdk/packet/roce_packet.h"

namespace espalier::dpdk {
namespace {

constexpr std::uint32_t kBthBytes = 12;
constexpr std::uint32_t kXrcHeaderBytes = 4;
constexpr std::uint32_t kRethBytes = 16;

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

}  // namespace espalier::dpdk
