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
  std::int64_t bytes = 0;  // acknowledged on this port (UDP: sent)
};

// The sender's report of a flow. Times are CLOCK_MONOTONIC nanoseconds.
struct SentFlow {
  std::uint32_t index = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;     // acknowledged (UDP: sent)
  std::int64_t segments = 0;  // or datagrams
  std::int64_t abandoned =
      0;  // segments that were aborted in flight and sent again from another port
  std::int64_t port_conflicts = 0;  // times that another flow of the pair had the port
  bool done = false;
  std::vector<PortUse> ports;  // in the order of first use
};

// The receiver's report of the same flow.
struct ReceivedFlow {
  std::uint32_t index = 0;
  std::int64_t bytes = 0;     // without duplicates
  std::int64_t segments = 0;  // or datagrams
  std::int64_t duplicates = 0;
};

// The times of one host's part in one all-reduce.
struct EpochTime {
  int job = 0;
  int ring = 0;
  int epoch = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// The times of one burst of a phased job, from the start of its phase at the sender until the
// receiver has acknowledged all of it.
struct BurstTime {
  std::uint32_t flow = 0;  // WorkloadFlow::index
  int iteration = 0;
  int phase = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<std::uint16_t> ports;  // that were in force at its end
};

// The report of one host's process at its end.
struct HostReport {
  std::string host;
  bool has_agent = false;
  std::vector<SentFlow> sent;
  std::vector<ReceivedFlow> received;
  std::vector<EpochTime> epochs;
  std::vector<BurstTime> bursts;
};

std::string FormatHostReport(const HostReport& report);
Result<HostReport> ParseHostReport(std::string_view text, std::string_view name);

}  // namespace espalier::traffic
