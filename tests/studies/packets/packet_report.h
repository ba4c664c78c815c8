#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "tests/studies/packets/packet_network.h"
#include "tests/studies/packets/replay_table.h"

namespace espalier::offline {

// What a replay of a table says of its paths. A flow ends with its last part, and is alone if no
// other flow is sent and it has one path, all of whose links are as fast as its NIC's.
struct PacketReport {
  std::size_t flows = 0;
  std::size_t parts = 0;
  // Times of the flows, each relative to the same flow alone.
  double slowest = 0;
  double p99 = 0;
  double median = 0;
  double last_seconds = 0;  // from time 0 until the last byte of all flows has arrived
  PacketOutcome packets;
};

// Replays the flows, and each different one alone: by bytes, number of links and rate of the NIC. A
// flow starts at its time, but not before earlier flows of its job on the same connection and to
// its source have arrived: a rank of a ring or pipeline sends on what it has received. Flows
// without bytes are left out. Errors: those of SendPackets; kInvalidArgument if no flow has bytes;
// kResourceExhausted if more than kMostAlone flows differ.
Result<PacketReport> ReplayFlows(const fabric::Topology& topology, std::span<const TableFlow> flows,
                                 const PacketOptions& options);

inline constexpr std::size_t kMostAlone = 64;

// One JSON object.
std::string FormatPacketReport(const PacketReport& report);
void PrintPacketReport(const PacketReport& report);

}  // namespace espalier::offline
