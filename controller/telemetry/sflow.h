#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/address/ip_address.h"

namespace espalier::telemetry {

// What an interface field of a flow sample stands for (sFlow version 5, section 5.3: the top two
// bits are a format).
struct SflowInterface {
  enum class Kind : std::uint8_t {
    kIndex,      // `index` is an ifIndex
    kUnknown,    // 0: the switch does not say, or does not know
    kInternal,   // 0x3FFFFFFF: the switch itself
    kDiscarded,  // `index` is a reason
    kSeveral,    // `index` is a number of interfaces
  };
  Kind kind = Kind::kUnknown;
  std::uint32_t index = 0;
  bool operator==(const SflowInterface&) const = default;
};

struct SflowFlowSample {
  std::uint32_t sequence = 0;
  std::uint32_t source_index = 0;  // the port that sampled
  std::uint32_t rate = 0;          // one packet in so many was sampled; never 0
  std::uint32_t drops = 0;         // samples that the switch lost, in all
  SflowInterface input;
  SflowInterface output;
  std::uint32_t header_protocol = 0;     // 1: Ethernet, 11: IPv4, 12: IPv6
  std::uint32_t frame_bytes = 0;         // of the whole packet on the wire
  std::span<const std::uint8_t> header;  // its beginning; may be empty
};

struct SflowCounterSample {
  std::uint32_t source_index = 0;
  std::string_view port_name;  // record 1005; "" if the switch does not send it
  // The generic counters of an interface (record 1), if the sample has them.
  struct Interface {
    std::uint32_t index = 0;
    std::uint64_t in_octets = 0;
    std::uint64_t out_octets = 0;
    std::optional<std::uint32_t> in_packets;  // modulo 2^32; none: unknown
  };
  std::optional<Interface> interface;
};

// One datagram. Spans and names refer to the bytes that were parsed.
struct SflowDatagram {
  IpAddress agent;
  std::uint32_t sub_agent = 0;
  std::uint32_t sequence = 0;
  std::uint32_t uptime_ms = 0;
  std::vector<SflowFlowSample> flows;
  std::vector<SflowCounterSample> counters;
  std::size_t skipped = 0;  // samples of other types, and of a sampling rate of 0

  // Parses a datagram of sFlow version 5 (sflow.org, 2004), compact and expanded samples. Returns
  // what is wrong, in words, or nullptr; after an error the contents are unspecified. Reuses the
  // memory of the vectors: a datagram allocates nothing once they are large enough.
  // Pure. Complexity: O(bytes).
  const char* Parse(std::span<const std::uint8_t> bytes);
};

}  // namespace espalier::telemetry
