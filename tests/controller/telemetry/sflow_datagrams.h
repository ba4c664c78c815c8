#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/address/ip_address.h"

namespace espalier::telemetry {

using Bytes = std::vector<std::uint8_t>;

// A datagram of a real agent, from the corpus of the fuzzer: pmacct's uacctd 1.7.7 and hsflowd
// 2.1.25.
inline Bytes RealDatagram(const std::string& name) {
  std::ifstream file(ESPALIER_SOURCE_DIR "/tests/fuzz/corpus/sflow/" + name, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// Builds datagrams field by field, in network order.
class DatagramBuilder {
 public:
  DatagramBuilder& U32(std::uint32_t value) {
    for (const int shift : {24, 16, 8, 0})
      bytes_.push_back(static_cast<std::uint8_t>(value >> shift));
    return *this;
  }
  DatagramBuilder& U64(std::uint64_t value) {
    return U32(static_cast<std::uint32_t>(value >> 32)).U32(static_cast<std::uint32_t>(value));
  }
  DatagramBuilder& Text(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    while (bytes_.size() % 4 != 0) bytes_.push_back(0);
    return *this;
  }
  DatagramBuilder& Add(const Bytes& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    while (bytes_.size() % 4 != 0) bytes_.push_back(0);
    return *this;
  }
  // A block with its type and length before it: a sample or a record.
  DatagramBuilder& Block(std::uint32_t type, const Bytes& bytes) {
    return U32(type).U32(static_cast<std::uint32_t>(bytes.size())).Add(bytes);
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

struct DatagramHead {
  IpAddress agent = IpAddress::FromV4(0x0A000001);
  std::uint32_t sub_agent = 0;
  std::uint32_t sequence = 1;
  std::uint32_t uptime_ms = 1'000;
};

inline Bytes Datagram(const DatagramHead& head,
                      const std::vector<std::pair<std::uint32_t, Bytes>>& samples) {
  DatagramBuilder to;
  to.U32(5).U32(1).U32(head.agent.V4()).U32(head.sub_agent).U32(head.sequence).U32(head.uptime_ms);
  to.U32(static_cast<std::uint32_t>(samples.size()));
  for (const auto& [type, sample] : samples) to.Block(type, sample);
  return to.bytes();
}

// An Ethernet frame with a packet of RoCEv2, cut after the base transport header.
inline Bytes RoceHeader(std::uint32_t source, std::uint32_t destination, std::uint16_t port,
                        std::uint32_t queue_pair, std::uint16_t ip_bytes = 1'068) {
  DatagramBuilder to;
  to.U32(0).U32(0).U32(0);
  Bytes frame = to.bytes();
  for (const int byte :
       {0x08, 0x00, 0x45, 0x00, ip_bytes >> 8, ip_bytes & 0xFF, 0, 0, 0x40, 0, 63, 17, 0, 0})
    frame.push_back(static_cast<std::uint8_t>(byte));
  for (const std::uint32_t address : {source, destination}) {
    for (const int shift : {24, 16, 8, 0})
      frame.push_back(static_cast<std::uint8_t>(address >> shift));
  }
  for (const int byte :
       {port >> 8, port & 0xFF, 4791 >> 8, 4791 & 0xFF, 0, 0, 0, 0, 0x0A, 0, 0xFF, 0xFF, 0})
    frame.push_back(static_cast<std::uint8_t>(byte));
  for (const int shift : {16, 8, 0})
    frame.push_back(static_cast<std::uint8_t>(queue_pair >> shift));
  return frame;
}

// A compact flow sample (type 1) of a frame.
inline Bytes FlowSample(std::uint32_t input, std::uint32_t rate, const Bytes& header,
                        std::uint32_t frame_bytes = 1'086) {
  DatagramBuilder record;
  record.U32(1).U32(frame_bytes).U32(4).U32(static_cast<std::uint32_t>(header.size())).Add(header);
  DatagramBuilder sample;
  sample.U32(1).U32(input).U32(rate).U32(0).U32(0).U32(input).U32(0).U32(1);
  sample.Block(1, record.bytes());
  return sample.bytes();
}

// A compact counter sample (type 2) of a port, with its name if there is one.
inline Bytes CounterSample(std::uint32_t index, std::uint64_t in_octets, std::uint64_t out_octets,
                           std::uint32_t in_packets = 0xFFFFFFFF, std::string_view name = "") {
  DatagramBuilder counters;
  counters.U32(index).U32(6).U64(10'000'000'000).U32(1).U32(3);
  counters.U64(in_octets).U32(in_packets).U32(0xFFFFFFFF).U32(0xFFFFFFFF).U32(0).U32(0).U32(0);
  counters.U64(out_octets).U32(0).U32(0).U32(0).U32(0).U32(0).U32(0);
  DatagramBuilder sample;
  sample.U32(1).U32(index).U32(name.empty() ? 1 : 2);
  if (!name.empty()) {
    DatagramBuilder record;
    record.U32(static_cast<std::uint32_t>(name.size())).Text(name);
    sample.Block(1005, record.bytes());
  }
  sample.Block(1, counters.bytes());
  return sample.bytes();
}

}  // namespace espalier::telemetry
