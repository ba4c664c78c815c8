// Arbitrary frames: a recognised RoCEv2 packet is inside the frame. A change of its source port
// changes only the port and the two checksums, and changing it back restores the frame.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/dpdk/packet/roce_packet.h"
#include "agent/dpdk/packet/source_port.h"
#include "common/base/check.h"

namespace {

using espalier::dpdk::RocePacket;

bool MayDiffer(const std::uint8_t* at, const RocePacket& packet) {
  return (at >= packet.udp && at < packet.udp + 2) ||
         (at >= packet.udp + 6 && at < packet.udp + 8) ||
         (at >= packet.icrc() && at < packet.icrc() + 4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const espalier::dpdk::IcrcPatch patch;
  std::vector<std::uint8_t> frame(data, data + size);
  const auto packet =
      espalier::dpdk::ParseRoce(frame.data(), static_cast<std::uint32_t>(frame.size()));
  if (!packet) return 0;
  ESPALIER_CHECK(packet.udp >= packet.ip + 20 &&
                 packet.udp + packet.udp_bytes <= frame.data() + size);
  (void)packet.DmaBytes();
  (void)packet.IsSequenceNak();
  (void)packet.IsProbe();
  const std::uint16_t own_port = espalier::dpdk::Load16(packet.udp);
  espalier::dpdk::RewriteSourcePort(packet, static_cast<std::uint16_t>(own_port ^ 1), patch);
  for (std::size_t i = 0; i < size; ++i) {
    ESPALIER_CHECK(frame[i] == data[i] || MayDiffer(&frame[i], packet), "at {}", i);
  }
  espalier::dpdk::RewriteSourcePort(packet, own_port, patch);
  // One's complement has two zeros, and a checksum may come back as the other one, all ones.
  const bool is_same = std::equal(frame.begin(), frame.end(), data);
  ESPALIER_CHECK(is_same || espalier::dpdk::Load16(packet.udp + 6) == 0xFFFF);
  return 0;
}
