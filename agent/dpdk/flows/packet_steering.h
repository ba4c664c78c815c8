#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "agent/dpdk/flows/datapath_flow_table.h"
#include "agent/dpdk/flows/spsc_ring.h"
#include "agent/dpdk/packet/source_port.h"

namespace espalier::dpdk {

// What a core reports to the control thread.
struct FlowEvent {
  enum class Kind : std::uint8_t {
    kNewFlow,          // the start of a message of several packets that is in no known flow
    kRestarted,        // port or PSN of a flow jumped, as another queue pair has its number
    kAcknowledgement,  // an acknowledgement whose flow is unknown
    kArrival,          // the start of such a message from outside, to an unknown queue pair
    // An acknowledgement or a READ request that leaves, to a queue pair of no known flow;
    // flow_kind: that of the data that it is for.
    kAnswer,
  };
  Kind kind = Kind::kNewFlow;
  FlowKind flow_kind = FlowKind::kRequests;
  std::uint16_t own_port = 0;
  FlowKey key;
  std::uint32_t psn = 0;
  std::uint32_t message_bytes = 0;  // of an RDMA message; 0: unknown
  std::uint32_t local_qpn = 0;      // queue pair that sends the flow; 0: unknown
  std::uint8_t vlan_tags = 0;       // number of tags in its frame
};

// The counts of one core, which only grow.
struct PacketSteeringCounts {
  std::atomic<std::uint64_t> frames{0};       // in both directions
  std::atomic<std::uint64_t> roce{0};         // RoCEv2 packets among them
  std::atomic<std::uint64_t> rewritten{0};    // packets whose source port was changed
  std::atomic<std::uint64_t> lost_events{0};  // events for which the ring was full
};

struct Frame {
  std::uint8_t* data = nullptr;
  std::uint32_t bytes = 0;
};

// Steers bursts of frames on one core, in place. Outgoing RoCEv2 packets of known flows get the
// source port of their flow. Incoming frames are searched for acknowledgements, READ requests and
// data whose acknowledgements are to be found. All other frames stay unchanged.
//
// It never locks, allocates, logs or waits. A frame goes through stages, each of which prefetches
// what the next one reads: headers, index, the flow's line and the end of the packet. With few
// flows each stage handles 64 frames, which takes the fewest instructions. With many flows the
// stages of different frames are interleaved, so that memory accesses overlap with computation.
// Predicted headers (flows/header_prediction.h) take a fast path.
// Thread safety: one core; the ring's other end and the counts: any one thread.
// Complexity: O(1) for each frame; measured by tests/bench/dpdk_packet_bench.cc.
class PacketSteering {
 public:
  PacketSteering(DatapathFlowTable& table, std::size_t core, const IcrcPatch& patch)
      : table_(table), core_(core), patch_(patch) {}

  // now_us: any clock in microseconds, which may wrap around.
  void Outgoing(std::span<const Frame> frames, std::uint32_t now_us);
  void Incoming(std::span<const Frame> frames, std::uint32_t now_us);

  SpscRing<FlowEvent>& events() { return events_; }
  const PacketSteeringCounts& counts() const { return counts_; }

 private:
  static constexpr std::size_t kBatch = 64;
  // Distance between two stages of a frame when they are interleaved, in frames.
  static constexpr std::size_t kAhead = 12;
  static constexpr std::size_t kRing = 32;
  static_assert(kRing > 2 * kAhead);
  // The index of 8,192 flows, whose lines are 512 KiB: what a core's own cache holds.
  static constexpr std::size_t kCachedIndexBytes = std::size_t{128} << 10;
  struct Staged;
  struct Burst;
  enum class Outcome : std::uint8_t { kForeign, kAsItWas, kRewritten };
  // A recent READ request, by a hash of its PSN and hosts: how many bytes it requests, and from
  // which queue pair.
  struct PendingRead {
    FlowKey requester;  // reversed, without a queue pair, as in the response
    std::uint32_t psn = 0;
    std::uint32_t bytes = 0;
    std::uint32_t qpn = 0;
  };
  // Maximum number of unknown streams in each direction that a core reports at a time.
  static constexpr int kReportedStreams = 8;
  static constexpr std::size_t kPendingReads = 256;

  void SteerByStages(const DatapathFlowTable::View& view, std::span<const Frame> frames,
                     std::uint32_t now_us);
  void SteerInterleaved(const DatapathFlowTable::View& view, std::span<const Frame> frames,
                        std::uint32_t now_us);
  void CountBurst(std::uint64_t frames, std::uint64_t foreign, std::uint64_t rewritten);
  Outcome SteerUnexpected(const DatapathFlowTable::View& view, const Frame& frame,
                          const Staged& staged, std::uint32_t now_us);
  [[gnu::noinline]] Outcome SteerAny(const DatapathFlowTable::View& view, const Frame& frame,
                                     std::uint32_t now_us);
  bool Count(FlowLine& line, FlowDetails& details, const RocePacket& packet, std::uint32_t now_us);
  bool CountOutOfTurn(FlowLine& line, FlowDetails& details, const RocePacket& packet);
  void HandleUnknown(const DatapathFlowTable::View& view, const RocePacket& packet);
  void TellNewFlow(const RocePacket& packet);
  // Lets unknown streams be reported again if the control thread has asked for more.
  void RenewReports(const DatapathFlowTable::View& view);
  // An acknowledgement or a READ request that leaves and belongs to no flow.
  void HandleAnswer(const DatapathFlowTable::View& view, const RocePacket& packet);
  // Data that arrive.
  [[gnu::noinline]] void HandleArrival(const DatapathFlowTable::View& view,
                                       const RocePacket& packet);
  void HandleAcknowledgement(const DatapathFlowTable::View& view, const RocePacket& packet,
                             std::uint32_t now_us);
  PendingRead& ReadAt(const FlowKey& key, std::uint32_t psn);
  void Tell(const FlowEvent& event);

  SpscRing<FlowEvent> events_{4096};
  DatapathFlowTable& table_;
  const std::size_t core_;
  const IcrcPatch& patch_;
  PacketSteeringCounts counts_;
  std::array<PendingRead, kPendingReads> reads_;
  // Offset of a frame's second cache line if the last burst had IPv6, whose headers end there; else
  // 0.
  std::ptrdiff_t second_line_ = 0;
  std::uint32_t look_ = 0;  // View::look for which these hold
  int arrivals_left_ = 0;
  int answers_left_ = 0;
  bool may_report_unmatched_ack_ = false;  // one unmatched acknowledgement for each burst
};

}  // namespace espalier::dpdk
