#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "agent/dpdk/flows/flow_index.h"
#include "agent/dpdk/flows/flow_key.h"
#include "common/os/large_memory.h"

namespace espalier::dpdk {

// Which packets of a queue pair carry the flow's bytes and count up its PSN.
enum class FlowKind : std::uint8_t {
  kRequests,   // WRITE, SEND
  kResponses,  // what READ requests of the other end bring
};

// One flow, in one cache line: what cores look at and add up with each of its packets. A flow's
// packets come to one core (its queue is chosen by their addresses and ports), so that additions
// need no lock; were they to come to two, a count could be lost and nothing else.
//
// Nearly all packets of a flow are like the one before, one PSN further. The core that claimed the
// line keeps here what that one was like (flows/expectation.h); no other core looks at it.
struct alignas(64) FlowLine {
  HeaderWord ip{};   // what its packets have in common: 16 bytes of the IP header,
  HeaderWord udp{};  // and 16 that end in the transport header
  std::atomic<std::uint64_t> bytes{0};  // of payload, each byte once
  // The next packet's queue pair and PSN, as the transport header has them from its fourth byte on.
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint32_t> packets{0};  // wraps around
  // The claiming core's number + 1, and the port that icrc_difference is for. 0: not claimed.
  std::atomic<std::uint32_t> expectation{0};
  std::uint32_t icrc_difference = 0;   // what the change of port does to the CRC; 0: no change
  std::atomic<std::uint16_t> port{0};  // chosen, as it lies in packets; 0: it keeps its own
  std::uint16_t udp_bytes = 0;

  std::uint32_t next_psn() const {
    return static_cast<std::uint32_t>(next.load(std::memory_order_relaxed)) & kPsnMask;
  }
};
static_assert(sizeof(FlowLine) == 64);

// What is looked at with packets that were not expected.
struct alignas(64) FlowDetails {
  FlowKey key;
  std::atomic<std::uint16_t> own_port{0};  // that the host sends from, as it lies in packets
  std::atomic<std::uint32_t> retries{0};   // packets that were sent again
  // PSN of the packet whose acknowledgement is waited for, and flags.
  std::atomic<std::uint32_t> watch{0};
  static constexpr std::uint32_t kWatching = 1U << 24;
  static constexpr int kKindShift = 25;  // the flow's FlowKind
  static constexpr std::uint32_t kKind = 1U << kKindShift;
  // What acknowledgements say.
  std::atomic<std::uint32_t> watched_at_us{0};
  std::atomic<std::uint32_t> rtt_us{0};  // smoothed; 0: unknown
  std::atomic<std::uint32_t> next_acknowledged_psn{0};
};
static_assert(sizeof(FlowDetails) == 64);

// Acknowledgements that answer a flow: from its destination, to the queue pair that sends it.
struct AcknowledgementLine {
  FlowKey key;
  std::uint32_t flow = 0;  // its slot
};

// A flow as the control thread sees it.
struct FlowCounts {
  std::uint64_t bytes = 0;
  std::uint64_t outstanding_bytes = 0;  // about: packets not acknowledged, of the mean size
  std::uint32_t packets = 0;
  std::uint32_t retries = 0;
  std::uint32_t rtt_us = 0;
};

// The flows of a datapath: lines in slots, found through an index that is replaced as a whole.
//
// One control thread adds and removes; cores read. Nobody waits: Publish swaps a pointer, a core
// takes the pointer anew with each burst, and what the control thread has taken out is used again
// only after every core has finished a burst that began after that (Reclaim). A change of a port
// alone is one store.
// Thread safety: as said; View and Finish: the core whose number is given; all else: control.
class DatapathFlowTable {
 public:
  // Limits: 2^24 flows.
  DatapathFlowTable(std::uint32_t max_flows, std::size_t cores);
  ~DatapathFlowTable();
  DatapathFlowTable(const DatapathFlowTable&) = delete;
  DatapathFlowTable& operator=(const DatapathFlowTable&) = delete;

  // The slot of a flow that is in no slot yet; none where the table is full.
  std::optional<std::uint32_t> Add(const FlowKey& key, FlowKind kind, std::uint16_t own_port,
                                   std::uint32_t psn);
  void Remove(std::uint32_t slot);
  // 0: its own. At once, without Publish.
  void SetPort(std::uint32_t slot, std::uint16_t port);
  // Acknowledgements with this key answer the flow.
  void Pair(std::uint32_t slot, const FlowKey& acknowledgements);
  // Packets that cores did not see have been acknowledged: the next one is not far ahead of what
  // it should be.
  void ContinueFromAcknowledged(std::uint32_t slot);
  // Whether cores are to tell of acknowledgements that nobody knows the flow of.
  void ReportUnmatchedAcks(bool want) {
    reports_unmatched_acks_.store(want, std::memory_order_relaxed);
  }
  // Makes what was added, removed and paired since visible to cores, from their next burst on.
  // Complexity: linear in the flows, some 20 ns each.
  void Publish();
  // Takes back what no core can see any more.
  void Reclaim();

  bool HasAcknowledgements(std::uint32_t slot) const { return paired_[slot]; }
  FlowCounts Read(std::uint32_t slot) const;
  const FlowKey& key(std::uint32_t slot) const { return details_[slot + 1].key; }
  std::uint32_t next_psn(std::uint32_t slot) const { return lines_[slot + 1].next_psn(); }
  // Of the first packet that is not acknowledged, as far as is known.
  std::uint32_t acknowledged_psn(std::uint32_t slot) const {
    return details_[slot + 1].next_acknowledged_psn.load(std::memory_order_relaxed);
  }
  // Chosen; 0: its own.
  std::uint16_t port(std::uint32_t slot) const {
    return Swap16(lines_[slot + 1].port.load(std::memory_order_relaxed));
  }
  std::uint32_t size() const { return size_; }

  struct Snapshot {
    FlowIndex flows;
    FlowIndex acknowledgements;
  };
  // What a core works with for one burst.
  struct View {
    const Snapshot* snapshot;
    FlowLine* lines;       // by slot + 1; the first one is nobody's
    FlowDetails* details;  // by slot + 1
    const AcknowledgementLine* acknowledgements;
    bool reports_unmatched_acks;
  };
  View Begin() {
    return {published_.load(std::memory_order_acquire), lines_.data(), details_.data(),
            acknowledgements_.data(), reports_unmatched_acks_.load(std::memory_order_relaxed)};
  }
  // The core's burst is over; it keeps nothing of its view.
  void Finish(std::size_t core) {
    std::atomic<std::uint64_t>& bursts = cores_[core].bursts;
    // Sequentially consistent: the next Begin is not to be seen before this.
    bursts.store(bursts.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  }

 private:
  struct alignas(64) Core {
    std::atomic<std::uint64_t> bursts{0};
  };
  // What went out of sight with a Publish.
  struct Retired {
    std::unique_ptr<const Snapshot> snapshot;
    std::vector<std::uint32_t> slots;
    std::vector<std::uint64_t> bursts;  // of each core, then
  };

  const std::uint32_t max_flows_;
  const std::size_t core_count_;
  std::vector<FlowLine, LargePages<FlowLine>> lines_;  // by slot + 1, as details_
  std::vector<FlowDetails, LargePages<FlowDetails>> details_;
  // By the slot of their flow.
  std::vector<AcknowledgementLine, LargePages<AcknowledgementLine>> acknowledgements_;
  const std::unique_ptr<Core[]> cores_;
  std::vector<bool> used_;    // by slot
  std::vector<bool> paired_;  // by slot: its acknowledgements are known
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> removed_;  // since the last Publish
  std::uint32_t size_ = 0;
  std::unique_ptr<const Snapshot> current_;
  std::atomic<const Snapshot*> published_;
  std::atomic<bool> reports_unmatched_acks_{false};
  std::deque<Retired> retired_;
};

}  // namespace espalier::dpdk
