#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "agent/dpdk/flows/datapath_flow_table.h"
#include "agent/dpdk/flows/spsc_ring.h"
#include "agent/dpdk/packet/source_port.h"

namespace espalier::dpdk {

// What a core tells the control thread.
struct FlowEvent {
  enum class Kind : std::uint8_t {
    kNewFlow,          // a message of several packets began that belongs to no flow of the table
    kRestarted,        // another queue pair has a flow's number now: its port or PSN jumped
    kAcknowledgement,  // of which it is not known what it acknowledges
  };
  Kind kind = Kind::kNewFlow;
  FlowKind flow_kind = FlowKind::kRequests;
  std::uint16_t own_port = 0;
  FlowKey key;
  std::uint32_t psn = 0;
  std::uint32_t message_bytes = 0;  // by RDMA; 0 unknown
  std::uint8_t vlan_tags = 0;       // of its frame
};

// What a core has seen; it only grows.
struct PacketSteeringCounts {
  std::atomic<std::uint64_t> frames{0};       // in both directions
  std::atomic<std::uint64_t> roce{0};         // of them RoCEv2
  std::atomic<std::uint64_t> rewritten{0};    // with another source port than they came with
  std::atomic<std::uint64_t> lost_events{0};  // the queue to the control thread was full
};

struct Frame {
  std::uint8_t* data = nullptr;
  std::uint32_t bytes = 0;
};

// One core's work on bursts of frames, in place: frames that leave the host get their flow's source
// port; those that come in are looked at for acknowledgements and READ requests, and never changed.
// What is no RoCEv2 packet of a flow in the table is not changed either.
//
// It never locks, allocates, logs or waits. A frame goes through stages, each of which fetches
// ahead what the next one looks at: headers, index, the flow's line and the packet's end. With few
// flows each stage goes over 64 frames, which takes the fewest instructions. With many the stages
// of different frames are interleaved, so that there is always memory on its way while the core
// computes. What is as expected (flows/expectation.h) takes the short way.
// Thread safety: one core; the ring's other end and the counts: any one thread.
// Complexity: tests/bench/dpdk_packet_bench.cc measures it.
class PacketSteering {
 public:
  PacketSteering(DatapathFlowTable& table, std::size_t core, const IcrcPatch& patch)
      : table_(table), core_(core), patch_(patch) {}

  // now_us: any clock of microseconds, that may wrap around.
  void Outgoing(std::span<const Frame> frames, std::uint32_t now_us);
  void Incoming(std::span<const Frame> frames, std::uint32_t now_us);

  SpscRing<FlowEvent>& events() { return events_; }
  const PacketSteeringCounts& counts() const { return counts_; }

 private:
  static constexpr std::size_t kBatch = 64;
  // Between two stages of a frame where they are interleaved, in frames.
  static constexpr std::size_t kAhead = 12;
  static constexpr std::size_t kRing = 32;
  static_assert(kRing > 2 * kAhead);
  // Of 8,192 flows, whose lines are 512 KiB: what a core's own cache holds.
  static constexpr std::size_t kCachedIndexBytes = std::size_t{128} << 10;
  struct Staged;
  struct Burst;
  enum class Outcome : std::uint8_t { kForeign, kAsItWas, kRewritten };
  // READ requests that came in lately, by the hash of their PSN and hosts: how much they ask for.
  struct PendingRead {
    FlowKey requester;  // reversed, without a queue pair: as the response will have it
    std::uint32_t psn = 0;
    std::uint32_t bytes = 0;
  };
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
  void HandleUnknown(const RocePacket& packet);
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
  // Where IPv6 came lately, whose headers end in a frame's second cache line: how far that is.
  std::ptrdiff_t second_line_ = 0;
  bool may_tell_of_stranger_ = false;  // one in a burst is enough
};

}  // namespace espalier::dpdk
