#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "agent/dpdk/flows/flow_index.h"
#include "agent/dpdk/flows/flow_key.h"
#include "agent/dpdk/flows/slot_numbers.h"
#include "agent/dpdk/flows/stream_table.h"
#include "common/os/large_memory.h"

namespace espalier::dpdk {

// One flow in one cache line: what cores read and count with each of its packets. A flow's packets
// come to one core, as addresses and ports determine the queue, so additions need no lock. If they
// came to two cores, counts could be lost and nothing else.
//
// Nearly all packets of a flow are like the previous one, with the next PSN. The core that has
// claimed the line keeps the expected header here (flows/header_prediction.h); no other core reads
// it.
struct alignas(64) FlowLine {
  HeaderWord ip{};   // what its packets have in common: 16 bytes of the IP header
  HeaderWord udp{};  // and 16 bytes that end in the transport header
  std::atomic<std::uint64_t> bytes{0};  // payload without retransmissions
  // The next packet's queue pair and PSN, as in the transport header from its fourth byte on.
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint32_t> packets{0};  // wraps around
  // The claiming core's number + 1, and the port for which icrc_difference holds. 0: not claimed.
  std::atomic<std::uint32_t> prediction{0};
  std::uint32_t icrc_difference = 0;   // change of the ICRC by the change of port; 0: no change
  std::atomic<std::uint16_t> port{0};  // chosen port in network order; 0: it keeps its own
  std::uint16_t udp_bytes = 0;

  std::uint32_t next_psn() const {
    return static_cast<std::uint32_t>(next.load(std::memory_order_relaxed)) & kPsnMask;
  }
};
static_assert(sizeof(FlowLine) == 64);

// The part of a flow that is only needed for packets that were not predicted.
struct alignas(64) FlowDetails {
  FlowKey key;
  std::atomic<std::uint16_t> own_port{0};  // the host's source port, in network order
  std::atomic<std::uint32_t> retries{0};   // retransmitted packets
  // PSN of the packet whose round trip is being measured, and flags.
  std::atomic<std::uint32_t> watch{0};
  static constexpr std::uint32_t kWatching = 1U << 24;
  static constexpr int kKindShift = 25;  // the flow's FlowKind
  static constexpr std::uint32_t kKind = 3U << kKindShift;
  // Round trip and progress from acknowledgements.
  std::atomic<std::uint32_t> watched_at_us{0};
  std::atomic<std::uint32_t> rtt_us{0};  // smoothed; 0: unknown
  std::atomic<std::uint32_t> next_acknowledged_psn{0};
};
static_assert(sizeof(FlowDetails) == 64);

// The key of a flow's acknowledgements: from its destination to the queue pair that sends it.
struct AcknowledgementLine {
  FlowKey key;
  std::uint32_t flow = 0;  // its slot
};

// A flow as the control thread sees it.
struct FlowCounts {
  std::uint64_t bytes = 0;
  std::uint64_t outstanding_bytes = 0;  // estimate: unacknowledged packets times their mean size
  std::uint32_t packets = 0;
  std::uint32_t retries = 0;
  std::uint32_t rtt_us = 0;
};

// The flows of a datapath: lines in slots, found through an index that is replaced as a whole.
//
// The control thread adds and removes flows; cores read them. Nobody waits: Publish swaps a
// pointer, each core loads the pointer at the start of a burst, and removed slots are used again
// only after every core has finished a later burst (Reclaim). A change of a port alone is one
// store.
// Thread safety: Begin and Finish: the core; everything else: the control thread.
class DatapathFlowTable {
 public:
  // max_flows: 1 to 2^24 (ESPALIER_CHECK).
  DatapathFlowTable(std::uint32_t max_flows, std::size_t cores);
  ~DatapathFlowTable();
  DatapathFlowTable(const DatapathFlowTable&) = delete;
  DatapathFlowTable& operator=(const DatapathFlowTable&) = delete;

  // Adds a flow that is not in the table and returns its slot; none if the table is full.
  std::optional<std::uint32_t> Add(const FlowKey& key, FlowKind kind, std::uint16_t own_port,
                                   std::uint32_t psn);
  void Remove(std::uint32_t slot);
  // Makes an answering flow one that sends data from this PSN on.
  void BeginData(std::uint32_t slot, FlowKind kind, std::uint32_t psn);
  // Sets the port of a flow at once, without Publish. 0: its own.
  void SetPort(std::uint32_t slot, std::uint16_t port);
  // Notes the key of the flow's acknowledgements.
  void Pair(std::uint32_t slot, const FlowKey& acknowledgements);
  // Advances the next PSN to the acknowledged one. For packets that cores did not see, so that the
  // next packet does not seem to be far ahead.
  void ContinueFromAcknowledged(std::uint32_t slot);
  // Sets whether cores report acknowledgements that belong to no known flow.
  void ReportUnmatchedAcks(bool want) {
    reports_unmatched_acks_.store(want, std::memory_order_relaxed);
  }
  // Lets cores report some more streams that they do not know. To be called regularly. `all`: they
  // also look at every packet of data that arrives, and at every acknowledgement that leaves and
  // belongs to no flow. Otherwise they look at a few of the first packets of messages.
  void LookAtStreams(bool all) {
    looks_ += 2;
    streams_look_.store(looks_ | (all ? 1U : 0U), std::memory_order_relaxed);
  }
  // Makes all additions, removals and pairings visible to cores, from their next burst on.
  // Complexity: linear in max_flows, plus some 20 ns for each flow.
  void Publish();
  // Frees the slots that no core can see any more.
  void Reclaim();

  bool HasAcknowledgements(std::uint32_t slot) const { return paired_[slot]; }
  FlowCounts Read(std::uint32_t slot) const;
  const FlowKey& key(std::uint32_t slot) const { return details_[slot + 1].key; }
  std::uint32_t next_psn(std::uint32_t slot) const { return lines_[slot + 1].next_psn(); }
  // The PSN of the first packet that is not known to be acknowledged.
  std::uint32_t acknowledged_psn(std::uint32_t slot) const {
    return details_[slot + 1].next_acknowledged_psn.load(std::memory_order_relaxed);
  }
  // The chosen port; 0: its own.
  std::uint16_t port(std::uint32_t slot) const {
    return Swap16(lines_[slot + 1].port.load(std::memory_order_relaxed));
  }
  // Its PSN after the furthest packet, in the lower 24 bits, as cores advance it.
  const std::atomic<std::uint64_t>& next(std::uint32_t slot) const { return lines_[slot + 1].next; }
  std::uint32_t size() const { return size_; }
  StreamTable& streams() { return streams_; }

  struct Snapshot {
    FlowIndex flows;
    FlowIndex acknowledgements;
    StreamTable::Index streams;
  };
  // The state that a core uses for one burst.
  struct View {
    const Snapshot* snapshot;
    FlowLine* lines;       // by slot + 1; the first one belongs to no flow
    FlowDetails* details;  // by slot + 1
    const AcknowledgementLine* acknowledgements;
    ArrivalLine* arrivals;  // by slot
    AckMatch* matches;      // by slot
    bool reports_unmatched_acks;
    std::uint32_t look;  // changes when cores may report more streams; odd: they look at all

    bool LooksAtAll() const { return look % 2 == 1; }
  };
  View Begin() {
    return {published_.load(std::memory_order_acquire),
            lines_.data(),
            details_.data(),
            acknowledgements_.data(),
            streams_.arrival_lines(),
            streams_.match_lines(),
            reports_unmatched_acks_.load(std::memory_order_relaxed),
            streams_look_.load(std::memory_order_relaxed)};
  }
  // Ends the core's burst, whose view must not be used any more.
  void Finish(std::size_t core) {
    std::atomic<std::uint64_t>& bursts = cores_[core].bursts;
    // Sequentially consistent, so that the next Begin does not take effect before this.
    bursts.store(bursts.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  }

 private:
  struct alignas(64) Core {
    std::atomic<std::uint64_t> bursts{0};
  };
  // What a Publish has replaced.
  struct Retired {
    std::unique_ptr<const Snapshot> snapshot;
    std::vector<std::uint32_t> slots;
    StreamTable::Removed streams;
    std::vector<std::uint64_t> bursts;  // finished by each core at that time
  };

  const std::uint32_t max_flows_;
  const std::size_t core_count_;
  std::vector<FlowLine, LargePages<FlowLine>> lines_;  // by slot + 1, like details_
  std::vector<FlowDetails, LargePages<FlowDetails>> details_;
  // By slot of the flow.
  std::vector<AcknowledgementLine, LargePages<AcknowledgementLine>> acknowledgements_;
  const std::unique_ptr<Core[]> cores_;
  SlotNumbers slots_;
  std::vector<bool> paired_;  // by slot: its acknowledgements are known
  StreamTable streams_;
  std::uint32_t looks_ = 0;
  std::uint32_t size_ = 0;
  std::unique_ptr<const Snapshot> current_;
  std::atomic<const Snapshot*> published_;
  std::atomic<bool> reports_unmatched_acks_{false};
  std::atomic<std::uint32_t> streams_look_{0};
  std::deque<Retired> retired_;
};

}  // namespace espalier::dpdk
