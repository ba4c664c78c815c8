#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace espalier::traffic {

struct PortUse {
  std::uint16_t port = 0;
  bool steered = false;    // the agent chose it
  std::int64_t bytes = 0;  // acknowledged over it (UDP: sent)
};

// A flow as its sender saw it. Times are CLOCK_MONOTONIC nanoseconds.
struct SentFlow {
  std::uint32_t index = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;           // acknowledged (UDP: sent)
  std::int64_t segments = 0;        // or datagrams
  std::int64_t abandoned = 0;       // segments cut off in flight and sent again over another port
  std::int64_t port_conflicts = 0;  // times that a port was taken by another flow of the pair
  bool done = false;
  std::vector<PortUse> ports;  // in the order of first use
};

// The same flow as its receiver saw it.
struct ReceivedFlow {
  std::uint32_t index = 0;
  std::int64_t bytes = 0;     // without duplicates
  std::int64_t segments = 0;  // or datagrams
  std::int64_t duplicates = 0;
};

// One host's part in one all-reduce.
struct EpochTime {
  int job = 0;
  int ring = 0;
  int epoch = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// What one host's process reports at its end.
struct HostReport {
  std::string host;
  bool has_agent = false;
  std::vector<SentFlow> sent;
  std::vector<ReceivedFlow> received;
  std::vector<EpochTime> epochs;
};

std::string FormatHostReport(const HostReport& report);
Result<HostReport> ParseHostReport(std::string_view text, std::string_view name);

}  // namespace espalier::traffic
