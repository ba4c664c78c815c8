#include "controller/telemetry/sflow.h"

#include <algorithm>
#include <cstring>

namespace espalier::telemetry {
namespace {

constexpr std::uint32_t kVersion = 5;
constexpr std::uint32_t kFlowSample = 1;
constexpr std::uint32_t kCounterSample = 2;
constexpr std::uint32_t kExpandedFlowSample = 3;
constexpr std::uint32_t kExpandedCounterSample = 4;
constexpr std::uint32_t kRawHeader = 1;
constexpr std::uint32_t kInterfaceCounters = 1;
constexpr std::uint32_t kPortName = 1005;
constexpr std::uint32_t kInternalInterface = 0x3FFFFFFF;

// Reads big-endian fields. After a read past the end, it is exhausted and reads zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::uint32_t U32() {
    const std::span<const std::uint8_t> four = Take(4);
    if (four.empty()) return 0;
    return std::uint32_t{four[0]} << 24 | std::uint32_t{four[1]} << 16 |
           std::uint32_t{four[2]} << 8 | four[3];
  }
  std::uint64_t U64() {
    const std::uint64_t high = U32();
    return high << 32 | U32();
  }
  void Skip(std::size_t count) { Take(count); }
  std::span<const std::uint8_t> Take(std::size_t count) {
    if (count > bytes_.size()) {
      exhausted_ = true;
      bytes_ = {};
      return {};
    }
    const std::span<const std::uint8_t> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  // A field of variable length, padded to four bytes.
  std::span<const std::uint8_t> TakePadded(std::uint32_t length) {
    const std::span<const std::uint8_t> taken = Take(length);
    Skip(std::min<std::size_t>((4 - length % 4) % 4, bytes_.size()));
    return taken;
  }
  bool exhausted() const { return exhausted_; }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::uint8_t> bytes_;
  bool exhausted_ = false;
};

SflowInterface InterfaceOf(std::uint32_t format, std::uint32_t value) {
  using Kind = SflowInterface::Kind;
  if (format == 1) return {Kind::kDiscarded, value};
  if (format == 2) return {Kind::kSeveral, value};
  if (format != 0 || value == 0) return {Kind::kUnknown, 0};
  if (value == kInternalInterface) return {Kind::kInternal, 0};
  return {Kind::kIndex, value};
}

SflowInterface ReadInterface(Reader& reader, bool is_expanded) {
  if (is_expanded) {
    const std::uint32_t format = reader.U32();
    return InterfaceOf(format, reader.U32());
  }
  const std::uint32_t field = reader.U32();
  return InterfaceOf(field >> 30, field & kInternalInterface);
}

// The index of a data source, whose class is not needed.
std::uint32_t ReadSource(Reader& reader, bool is_expanded) {
  if (!is_expanded) return reader.U32() & 0xFFFFFF;
  reader.Skip(4);
  return reader.U32();
}

const char* ReadRawHeader(std::span<const std::uint8_t> bytes, SflowFlowSample& sample) {
  Reader reader(bytes);
  sample.header_protocol = reader.U32();
  sample.frame_bytes = reader.U32();
  reader.Skip(4);  // bytes that were stripped
  const std::uint32_t length = reader.U32();
  sample.header = reader.Take(length);
  return reader.exhausted() ? "a sampled header is longer than its record" : nullptr;
}

const char* ReadInterfaceCounters(std::span<const std::uint8_t> bytes, SflowCounterSample& sample) {
  constexpr std::uint32_t kUnknownCount = 0xFFFFFFFF;
  Reader reader(bytes);
  SflowCounterSample::Interface interface;
  interface.index = reader.U32();
  reader.Skip(20);  // type, speed, duplex, status
  interface.in_octets = reader.U64();
  std::uint32_t packets = 0;
  bool has_packets = false;
  for (int kind = 0; kind < 3; ++kind) {  // unicast, multicast, broadcast
    const std::uint32_t count = reader.U32();
    if (count == kUnknownCount) continue;
    packets += count;
    has_packets = has_packets || kind == 0;
  }
  if (has_packets) interface.in_packets = packets;
  reader.Skip(12);  // discards, errors, unknown protocols
  interface.out_octets = reader.U64();
  reader.Skip(24);
  if (reader.exhausted()) return "a record of interface counters is too short";
  sample.interface = interface;
  return nullptr;
}

const char* ReadPortName(std::span<const std::uint8_t> bytes, SflowCounterSample& sample) {
  Reader reader(bytes);
  const std::uint32_t length = reader.U32();
  const std::span<const std::uint8_t> name = reader.Take(length);
  if (reader.exhausted()) return "a port's name is longer than its record";
  sample.port_name = {reinterpret_cast<const char*>(name.data()), name.size()};
  return nullptr;
}

// Calls read(type, bytes) for each record until one returns an error.
template <typename ReadRecord>
const char* ForEachRecord(Reader& reader, ReadRecord read) {
  const std::uint32_t records = reader.U32();
  for (std::uint32_t i = 0; i < records; ++i) {
    const std::uint32_t type = reader.U32();
    const std::uint32_t length = reader.U32();
    const std::span<const std::uint8_t> bytes = reader.TakePadded(length);
    if (reader.exhausted()) return "a record is longer than its sample";
    if (const char* const error = read(type, bytes)) return error;
  }
  return reader.exhausted() ? "a sample is too short" : nullptr;
}

const char* ReadFlowSample(Reader reader, bool is_expanded, SflowFlowSample& sample) {
  sample.sequence = reader.U32();
  sample.source_index = ReadSource(reader, is_expanded);
  sample.rate = reader.U32();
  reader.Skip(4);  // the pool
  sample.drops = reader.U32();
  sample.input = ReadInterface(reader, is_expanded);
  sample.output = ReadInterface(reader, is_expanded);
  return ForEachRecord(reader, [&](std::uint32_t type, std::span<const std::uint8_t> bytes) {
    return type == kRawHeader ? ReadRawHeader(bytes, sample) : nullptr;
  });
}

const char* ReadCounterSample(Reader reader, bool is_expanded, SflowCounterSample& sample) {
  reader.Skip(4);  // the sequence
  sample.source_index = ReadSource(reader, is_expanded);
  return ForEachRecord(reader,
                       [&](std::uint32_t type, std::span<const std::uint8_t> bytes) -> const char* {
                         if (type == kInterfaceCounters)
                           return ReadInterfaceCounters(bytes, sample);
                         if (type == kPortName) return ReadPortName(bytes, sample);
                         return nullptr;
                       });
}

std::optional<IpAddress> ReadAddress(Reader& reader) {
  constexpr std::uint32_t kV4 = 1;
  constexpr std::uint32_t kV6 = 2;
  const std::uint32_t type = reader.U32();
  if (type == kV4) return IpAddress::FromV4(reader.U32());
  if (type != kV6) return std::nullopt;
  const std::span<const std::uint8_t> taken = reader.Take(16);
  IpAddress::Bytes bytes{};
  if (!taken.empty()) std::memcpy(bytes.data(), taken.data(), bytes.size());
  return IpAddress(bytes);
}

}  // namespace

const char* SflowDatagram::Parse(std::span<const std::uint8_t> bytes) {
  flows.clear();
  counters.clear();
  skipped = 0;
  Reader reader(bytes);
  if (reader.U32() != kVersion) return "this is not sFlow version 5";
  const std::optional<IpAddress> address = ReadAddress(reader);
  if (!address) return "the agent's address is neither IPv4 nor IPv6";
  agent = *address;
  sub_agent = reader.U32();
  sequence = reader.U32();
  uptime_ms = reader.U32();
  const std::uint32_t samples = reader.U32();
  for (std::uint32_t i = 0; i < samples; ++i) {
    const std::uint32_t type = reader.U32();
    const std::uint32_t length = reader.U32();
    const std::span<const std::uint8_t> sample = reader.TakePadded(length);
    if (reader.exhausted()) return "a sample is longer than the datagram";
    const char* error = nullptr;
    switch (type) {
      case kFlowSample:
      case kExpandedFlowSample:
        error = ReadFlowSample(Reader(sample), type == kExpandedFlowSample, flows.emplace_back());
        if (error == nullptr && flows.back().rate == 0) {
          flows.pop_back();
          ++skipped;
        }
        break;
      case kCounterSample:
      case kExpandedCounterSample:
        error = ReadCounterSample(Reader(sample), type == kExpandedCounterSample,
                                  counters.emplace_back());
        break;
      default:
        ++skipped;
    }
    if (error != nullptr) return error;
  }
  return reader.exhausted() ? "the datagram is too short" : nullptr;
}

}  // namespace espalier::telemetry
