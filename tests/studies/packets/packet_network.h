#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::offline {

// Bytes that one connection sends over given links, there and back.
struct PacketMessage {
  std::int64_t start_ns = 0;
  std::int64_t bytes = 0;            // above 0
  std::vector<std::uint32_t> links;  // DirectedLink::Index, from NIC to NIC; at least one
  // Messages that must have arrived before it starts, by index; earlier ones of the list only.
  std::vector<std::size_t> after;
};

enum class Transport {
  kDctcp,  // congestion control by marks, as RoCE's DCQCN; switches mark, and lose nothing
  kCubic,  // the usual TCP: switches lose packets
};

struct PacketOptions {
  Transport transport = Transport::kDctcp;
  std::int64_t link_delay_ns = 1000;    // propagation, in each direction
  std::int64_t segment_bytes = 4096;    // payload of a packet
  std::int64_t queue_bytes = 16 << 20;  // most bytes that wait for one link
  // Checked while it runs; true ends it.
  std::function<bool()> is_cancelled = [] { return false; };
};

struct PacketOutcome {
  std::vector<double> starts;            // by message, in seconds
  std::vector<double> seconds;           // by message, from its start until its last byte arrived
  std::vector<std::int64_t> link_bytes;  // by DirectedLink::Index, headers included
  std::int64_t longest_queue_bytes = 0;  // before a link that leaves a switch
  std::int64_t marked_packets = 0;
  std::int64_t dropped_packets = 0;
  std::uint64_t events = 0;
};

// Simulates the messages packet by packet with ns-3's own models: point-to-point links, queues
// before each link (RedQueueDisc that marks from a fixed length on, or FifoQueueDisc), IPv4 and
// TCP. Connections begin with a window of one bandwidth-delay product, which all that start
// together at a NIC share, as NICs with RoCE begin at the rate of the link. ns-3 has neither PFC
// nor DCQCN: queues long enough to lose nothing stand for the first, DCTCP for the second.
//
// Deterministic. Takes about 5 us a packet and link (packets_study --json: "events").
// Errors: kResourceExhausted for more than kMostPacketHops; kFailedPrecondition if messages have
// not arrived after a hundred times the time that the busiest link needs; kUnavailable if
// cancelled. Not thread-safe: ns-3 has one simulation in a process.
Result<PacketOutcome> SendPackets(const fabric::Topology& topology,
                                  std::span<const PacketMessage> messages,
                                  const PacketOptions& options);

// The limit of what SendPackets simulates: packets times the links that they take. About an hour.
inline constexpr std::int64_t kMostPacketHops = 500'000'000;

}  // namespace espalier::offline
