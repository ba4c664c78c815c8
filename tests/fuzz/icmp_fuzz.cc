// Arbitrary ICMP messages, as raw sockets deliver them; the first byte selects the address family.
#include <cstddef>
#include <cstdint>
#include <span>

#include "agent/probe/sockets/icmp_parser.h"
#include "agent/probe/sockets/probe_packet.h"
#include "common/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using espalier::agent::ProbeReply;
  if (size == 0) return 0;
  const std::span<const std::uint8_t> bytes(data + 1, size - 1);
  const bool is_v4 = data[0] % 2 == 0;
  const espalier::IpAddress sender(espalier::IpAddress::Bytes{0xfd, 1});
  const std::optional<ProbeReply> reply =
      is_v4 ? espalier::agent::ParseIcmpV4(bytes) : espalier::agent::ParseIcmpV6(sender, bytes);
  if (!reply) return 0;
  ESPALIER_CHECK(reply->ttl > 0);
  ESPALIER_CHECK(size > espalier::agent::ProbeUdpBytes(0), "size={}", size);
  ESPALIER_CHECK(is_v4 ? reply->responder.IsV4() && reply->source.IsV4()
                       : reply->responder == sender);
  return 0;
}
