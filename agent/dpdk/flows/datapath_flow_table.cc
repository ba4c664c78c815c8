#include "agent/dpdk/flows/datapath_flow_table.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

// Problem: cores look up flows in every packet and must not wait or take locks, while the control
// thread adds and removes flows and must not reuse memory that a core still reads.
// Idea: quiescent-state-based reclamation, as in RCU. The index is immutable; Publish builds a new
// one and swaps the pointer. A core holds the pointer only within a burst and counts finished
// bursts. Publish notes these counts; once every core's count has grown, no core can have the old
// index, and its snapshot and the removed slots are free. Lines never move, so a port changes by
// one store in the line.
// Invariant: a slot is used, removed but still visible (also in retired_), or free (SlotNumbers).
// Cost: Begin and Finish are a load and a store. Publish is linear in the slots. Idle cores must
// keep on counting empty bursts, or nothing is ever freed.
// Source: P. McKenney and J. Slingwine, Read-Copy Update, PDCS 1998; T. Hart et al., IPDPS 2006.

namespace espalier::dpdk {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::uint32_t KindBits(FlowKind kind) {
  return static_cast<std::uint32_t>(kind) << FlowDetails::kKindShift;
}

}  // namespace

DatapathFlowTable::DatapathFlowTable(std::uint32_t max_flows, std::size_t cores)
    : max_flows_(max_flows),
      core_count_(cores),
      lines_(max_flows + std::size_t{1}),
      details_(max_flows + std::size_t{1}),
      acknowledgements_(max_flows),
      cores_(std::make_unique<Core[]>(cores)),
      slots_(max_flows),
      paired_(max_flows, false),
      streams_(std::max(1U, max_flows / 2)),
      current_(new Snapshot{FlowIndex(0), FlowIndex(0), {}}),
      published_(current_.get()) {
  ESPALIER_CHECK(max_flows > 0 && max_flows <= 1U << 24, "max_flows={}", max_flows);
}

DatapathFlowTable::~DatapathFlowTable() = default;

std::optional<std::uint32_t> DatapathFlowTable::Add(const FlowKey& key, FlowKind kind,
                                                    std::uint16_t own_port, std::uint32_t psn) {
  const std::optional<std::uint32_t> taken = slots_.Take();
  if (!taken) return std::nullopt;
  const std::uint32_t slot = *taken;
  FlowLine& line = lines_[slot + 1];
  line.port.store(0, kRelaxed);
  line.bytes.store(0, kRelaxed);
  line.packets.store(0, kRelaxed);
  line.next.store(std::uint64_t{key.qpn()} << 32 | psn, kRelaxed);
  line.prediction.store(0, kRelaxed);
  FlowDetails& details = details_[slot + 1];
  details.key = key;
  details.own_port.store(Swap16(own_port), kRelaxed);
  details.retries.store(0, kRelaxed);
  details.watch.store(KindBits(kind), kRelaxed);
  details.rtt_us.store(0, kRelaxed);
  details.next_acknowledged_psn.store(psn, kRelaxed);
  ++size_;
  return slot;
}

void DatapathFlowTable::Remove(std::uint32_t slot) {
  ESPALIER_CHECK(slots_.IsUsed(slot), "slot={}", slot);
  slots_.Remove(slot);
  paired_[slot] = false;
  --size_;
}

// No core writes these while the flow is answering.
void DatapathFlowTable::BeginData(std::uint32_t slot, FlowKind kind, std::uint32_t psn) {
  ESPALIER_CHECK(slots_.IsUsed(slot), "slot={}", slot);
  lines_[slot + 1].next.store(std::uint64_t{key(slot).qpn()} << 32 | psn, kRelaxed);
  FlowDetails& details = details_[slot + 1];
  details.next_acknowledged_psn.store(psn, kRelaxed);
  details.watch.store(KindBits(kind), std::memory_order_release);
}

void DatapathFlowTable::SetPort(std::uint32_t slot, std::uint16_t port) {
  ESPALIER_CHECK(slots_.IsUsed(slot), "slot={}", slot);
  lines_[slot + 1].port.store(Swap16(port), kRelaxed);
}

void DatapathFlowTable::Pair(std::uint32_t slot, const FlowKey& acknowledgements) {
  ESPALIER_CHECK(slots_.IsUsed(slot) && !paired_[slot], "slot={}", slot);
  acknowledgements_[slot] = {acknowledgements, slot};
  paired_[slot] = true;
}

void DatapathFlowTable::ContinueFromAcknowledged(std::uint32_t slot) {
  const std::uint32_t psn = acknowledged_psn(slot);
  const std::uint32_t ahead = (psn - next_psn(slot)) & kPsnMask;
  if (!paired_[slot] || ahead >= 1U << 23) return;
  lines_[slot + 1].next.store(std::uint64_t{key(slot).qpn()} << 32 | psn, kRelaxed);
}

void DatapathFlowTable::Publish() {
  auto next = std::make_unique<Snapshot>(
      Snapshot{FlowIndex(size_), FlowIndex(size_), streams_.MakeIndex()});
  for (std::uint32_t slot = 0; slot < max_flows_; ++slot) {
    if (!slots_.IsUsed(slot)) continue;
    next->flows.Add(HashOf(details_[slot + 1].key), slot);
    if (paired_[slot]) next->acknowledgements.Add(HashOf(acknowledgements_[slot].key), slot);
  }
  published_.store(next.get(), std::memory_order_seq_cst);
  Retired retired{
      std::exchange(current_, std::move(next)), slots_.TakeRemoved(), streams_.TakeRemoved(), {}};
  for (std::size_t core = 0; core < core_count_; ++core) {
    retired.bursts.push_back(cores_[core].bursts.load(std::memory_order_seq_cst));
  }
  retired_.push_back(std::move(retired));
}

void DatapathFlowTable::Reclaim() {
  const auto is_unseen = [this](const Retired& retired) {
    for (std::size_t core = 0; core < core_count_; ++core) {
      if (cores_[core].bursts.load(std::memory_order_seq_cst) <= retired.bursts[core]) return false;
    }
    return true;
  };
  while (!retired_.empty() && is_unseen(retired_.front())) {
    slots_.Free(retired_.front().slots);
    streams_.Free(retired_.front().streams);
    retired_.pop_front();
  }
}

FlowCounts DatapathFlowTable::Read(std::uint32_t slot) const {
  const FlowLine& line = lines_[slot + 1];
  const FlowDetails& details = details_[slot + 1];
  FlowCounts counts{.bytes = line.bytes.load(kRelaxed),
                    .packets = line.packets.load(kRelaxed),
                    .retries = details.retries.load(kRelaxed),
                    .rtt_us = details.rtt_us.load(kRelaxed)};
  if (paired_[slot] && counts.packets > 0) {
    const std::uint32_t psns =
        (line.next_psn() - details.next_acknowledged_psn.load(kRelaxed)) & kPsnMask;
    // Beyond half of the PSN space, acknowledgements have overtaken what was read from the line.
    const std::uint64_t packets = psns < 1U << 23 ? psns : 0;
    counts.outstanding_bytes = std::min(counts.bytes, packets * (counts.bytes / counts.packets));
  }
  return counts;
}

}  // namespace espalier::dpdk
