#include "agent/dpdk/flows/stream_table.h"

#include <bit>

#include "common/base/check.h"

namespace espalier::dpdk {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint32_t kHalfOfPsns = 1U << 23;
// Further back than any retransmission: another queue pair has the number.
constexpr std::uint32_t kFarBack = 1U << 16;

}  // namespace

void ArrivalLine::Advance(std::uint32_t psn, std::uint32_t payload_bytes) {
  const std::uint32_t after = (psn + 1) & kPsnMask;
  const std::uint32_t ahead = (after - static_cast<std::uint32_t>(next.load(kRelaxed))) & kPsnMask;
  if (ahead >= kHalfOfPsns && kPsnMask + 1 - ahead < kFarBack) return;  // sent again
  next.store(after, kRelaxed);
  bytes.store(bytes.load(kRelaxed) + payload_bytes, kRelaxed);
}

void AckMatch::Compare(std::uint32_t psn, FlowKind answered) {
  if (answered != kind) return;
  for (std::uint32_t left = possible.load(kRelaxed); left != 0; left &= left - 1) {
    const auto candidate = static_cast<std::uint32_t>(std::countr_zero(left));
    const std::uint64_t next_psn = next[candidate]->load(kRelaxed);
    if (kind == FlowKind::kResponses ? MayFollow(next_psn, psn) : Fits(next_psn, psn, kWindow))
      continue;
    possible.fetch_and(~(1U << candidate), kRelaxed);
  }
  seen.fetch_add(1, kRelaxed);
}

std::optional<std::uint32_t> StreamTable::AddArrival(const FlowKey& key, FlowKind kind,
                                                     std::uint32_t psn) {
  const auto slot = arrivals_.Take();
  if (!slot) return std::nullopt;
  ArrivalLine& line = arrival_lines_[*slot];
  line.key = key;
  line.kind = kind;
  line.next.store((psn + 1) & kPsnMask, kRelaxed);
  line.bytes.store(0, kRelaxed);
  return slot;
}

std::optional<std::uint32_t> StreamTable::AddMatch(
    const FlowKey& acknowledgements, FlowKind kind,
    std::span<const std::atomic<std::uint64_t>* const> next) {
  ESPALIER_CHECK(next.size() <= AckMatch::kMostCandidates, "candidates={}", next.size());
  const auto slot = matches_.Take();
  if (!slot) return std::nullopt;
  AckMatch& match = match_lines_[*slot];
  match.key = acknowledgements;
  match.kind = kind;
  match.count = static_cast<std::uint32_t>(next.size());
  for (std::size_t i = 0; i < next.size(); ++i) match.next[i] = next[i];
  match.possible.store(static_cast<std::uint32_t>((std::uint64_t{1} << next.size()) - 1), kRelaxed);
  match.seen.store(0, kRelaxed);
  return slot;
}

StreamTable::Index StreamTable::MakeIndex() const {
  std::vector<std::uint32_t> arrivals;
  std::vector<std::uint32_t> matches;
  for (std::uint32_t slot = 0; slot < arrivals_.count(); ++slot) {
    if (arrivals_.IsUsed(slot)) arrivals.push_back(slot);
  }
  for (std::uint32_t slot = 0; slot < matches_.count(); ++slot) {
    if (matches_.IsUsed(slot)) matches.push_back(slot);
  }
  Index index{FlowIndex(arrivals.size()), FlowIndex(matches.size())};
  for (const std::uint32_t slot : arrivals) {
    index.arrivals.Add(HashOf(arrival_lines_[slot].key), slot);
  }
  for (const std::uint32_t slot : matches) index.matches.Add(HashOf(match_lines_[slot].key), slot);
  return index;
}

void StreamTable::Free(const Removed& removed) {
  arrivals_.Free(removed.arrivals);
  matches_.Free(removed.matches);
}

}  // namespace espalier::dpdk
