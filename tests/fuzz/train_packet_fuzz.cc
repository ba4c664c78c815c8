// Arbitrary packets of probe trains, as sockets deliver them; the first byte selects how it came.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent/probe/train_packet.h"
#include "common/base/check.h"

namespace espalier::agent {
namespace {

using Bytes = std::span<const std::uint8_t>;

bool StartsWithMagic(Bytes bytes) {
  return bytes.size() == kTrainPayloadBytes && bytes[0] == kTrainMagic >> 24 &&
         bytes[3] == (kTrainMagic & 0xFF);
}

// What is accepted is what would have been built.
void CheckSegment(const TrainSegment& segment, Bytes tcp) {
  const std::vector<std::uint8_t> built =
      BuildTrainPacket({.source = segment.source,
                        .destination = segment.destination,
                        .source_port = static_cast<std::uint16_t>(tcp[0] << 8 | tcp[1]),
                        .destination_port = segment.destination_port,
                        .protocol = 6,
                        .traffic_class = segment.traffic_class,
                        .number = segment.payload.number,
                        .index = segment.payload.index,
                        .token = segment.payload.token},
                       segment.payload.sent_ns);
  const Bytes payload = Bytes(built).last(kTrainPayloadBytes);
  ESPALIER_CHECK(std::equal(payload.begin(), payload.end(), tcp.last(kTrainPayloadBytes).begin()));
  const std::optional<TrainSegment> again =
      segment.source.IsV4()
          ? ParseTrainSegmentV4(built)
          : ParseTrainSegmentV6(segment.source, segment.destination, Bytes(built).subspan(40));
  ESPALIER_CHECK(again && again->payload == segment.payload);
}

}  // namespace
}  // namespace espalier::agent

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier::agent;
  if (size == 0) return 0;
  const Bytes bytes(data + 1, size - 1);
  if (data[0] % 3 == 0) {
    ESPALIER_CHECK(!ParseTrainPayload(bytes) || StartsWithMagic(bytes), "size={}", size);
  } else if (data[0] % 3 == 1) {
    const std::optional<TrainSegment> segment = ParseTrainSegmentV4(bytes);
    if (segment) CheckSegment(*segment, bytes.last(20 + kTrainPayloadBytes));
  } else {
    const espalier::IpAddress from(espalier::IpAddress::Bytes{0xfd, 1});
    const espalier::IpAddress to(espalier::IpAddress::Bytes{0xfd, 2});
    const std::optional<TrainSegment> segment = ParseTrainSegmentV6(from, to, bytes);
    if (segment) CheckSegment(*segment, bytes);
  }
  return 0;
}
