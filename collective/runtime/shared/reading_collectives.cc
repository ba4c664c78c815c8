// Of SharedCollectives: what is copied between the memories of processes.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "collective/reduce/reduce.h"
#include "collective/runtime/shared/shared_area.h"
#include "collective/runtime/shared/shared_collectives.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using reduce::Stores;

// Parts from here on are read where they are: below, to ask the kernel costs more than a copy.
constexpr std::size_t kReadFrom = 32 << 10;
constexpr std::size_t kStreamSlotsFrom = 256 << 10;
constexpr std::size_t kReduceChunk = 128 << 10;

}  // namespace

void SharedCollectives::MeetMemories() {
  std::vector<MemoryOwner> owners;
  for (int peer = 0; peer < size_; ++peer) owners.push_back(area(peer).owner);
  memories_.Meet(std::move(owners));
  level2_bytes_ = area(0).level2_bytes;  // the same for all
}

// Who sees most of a call: of a broadcast one that reads.
int SharedCollectives::ChooserOf(const CallSignature& call) const {
  if (call.kind == CollectiveKind::kReduce) return call.root;
  return call.kind == CollectiveKind::kBroadcast ? (call.root + 1) % size_ : 0;
}

// What is faster of two ways. Ranks that share cores do not read: part of what they fetch through
// slots is in the cache of the core where it was written.
SharedWay SharedCollectives::ChooseWay(const Operands& operands, const CallSignature& call) {
  is_timed_ = false;
  if (way_ && *way_ != SharedWay::kSmall) return *way_;
  const std::size_t element = reduce::SizeOf(operands.type);
  SharedWay second = SharedWay::kRead;
  std::size_t bytes = operands.elements * element;
  std::size_t least = kReadFrom;
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      bytes = LongestPart(operands, kSlotBytes).count * element;
      break;
    case CollectiveKind::kBroadcast:
      break;
    case CollectiveKind::kReduce:
      if (size_ == 2) second = SharedWay::kStreamed;
      least = kStreamSlotsFrom;
      break;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      second = SharedWay::kStreamed;
      least = kStreamSlotsFrom;
      break;
    default:
      return SharedWay::kSlots;
  }
  if (bytes < least) return SharedWay::kSlots;
  if (!group_->has_cores()) second = SharedWay::kStreamed;
  if (rank_ != ChooserOf(call)) return SharedWay::kSlots;  // nobody asks
  const std::size_t call_class = static_cast<std::size_t>(call.kind) * kSizeClasses +
                                 static_cast<std::size_t>(std::bit_width(bytes));
  const TimedChoice::Way next = choice_.Next(call_class);
  is_timed_ = choice_.IsTimed();
  return next == TimedChoice::Way::kFirst ? SharedWay::kSlots : second;
}

// All ranks see the same lines, so that they decide alike.
SharedWay SharedCollectives::WayOfAll(const CallSignature& call) const {
  const SharedWay way = call_of(ChooserOf(call)).way;
  if (way != SharedWay::kRead) return way;
  const bool writes =
      call.kind == CollectiveKind::kBroadcast || call.kind == CollectiveKind::kReduce;
  for (int peer = 0; peer < size_; ++peer) {
    const SharedCall& theirs = call_of(peer);
    if (theirs.reads_all == 0 || theirs.readable == nullptr || (writes && theirs.writes_all == 0)) {
      return SharedWay::kStreamed;
    }
  }
  const bool can =
      writes || call.kind == CollectiveKind::kAllGather || call.kind == CollectiveKind::kAllToAll;
  return can ? way : SharedWay::kSlots;
}

Result<void> SharedCollectives::RunByReading(const Operands& operands, const CallSignature& call) {
  if (call.kind == CollectiveKind::kBroadcast) return Spread(operands, call.root);
  if (call.kind == CollectiveKind::kReduce) return Collect(operands, call.root);
  return ReadParts(operands, call.kind);
}

// Allgather and alltoall, straight from the memory of each peer.
Result<void> SharedCollectives::ReadParts(const Operands& operands, CollectiveKind kind) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const bool gathers = kind == CollectiveKind::kAllGather;
  const Stores stores = CopyStores(LongestPart(operands, kSlotBytes).count * element);
  for (int step = 0; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    const std::size_t bytes = operands.PartOf(gathers ? peer : rank_) * element;
    const std::byte* from = peer == rank_ ? operands.input : call_of(peer).readable;
    if (!gathers) from += operands.BeginOf(rank_) * element;
    std::byte* to = operands.output + operands.BeginOf(peer) * element;
    if (bytes == 0 || (peer == rank_ && from == to)) continue;
    if (peer == rank_) {
      reduce::Copy(from, to, bytes, stores);
      continue;
    }
    auto read = memories_.Read(peer, from, to, bytes);
    if (!read) return read;
  }
  return {};
}

// Each rank but the root reads what it is to have, less the last of as many parts as there are
// ranks, which the root writes meanwhile: all copy as much.
Result<void> SharedCollectives::Spread(const Operands& operands, int root) {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  const std::size_t begin = bytes - bytes / inputs_.size() / kLine * kLine;  // of the last part
  if (rank_ != root) return memories_.Read(root, call_of(root).readable, operands.output, begin);
  if (operands.output != operands.input) {
    reduce::Copy(operands.input, operands.output, bytes,
                 bytes >= kStreamFrom ? Stores::kStreaming : Stores::kCached);
  }
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    auto written = memories_.Write(peer, operands.input + begin, call_of(peer).writable + begin,
                                   bytes - begin);
    if (!written) return written;
  }
  return {};
}

// Each rank reads its share of all inputs, chunk by chunk, and reduces it; all but the root write
// it to the root then, which has the larger share therefore.
Result<void> SharedCollectives::Collect(const Operands& operands, int root) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t ranks = inputs_.size();
  const std::size_t others = ranks - 1;
  const std::size_t share = operands.elements * others / (ranks + others * others) / kLine * kLine;
  const std::size_t roots = operands.elements - others * share;
  const auto place = static_cast<std::size_t>((rank_ - root + size_) % size_);  // from the root
  const std::size_t begin = place == 0 ? 0 : roots + (place - 1) * share;
  const std::size_t end = begin + (place == 0 ? roots : share);
  const Stores stores =
      operands.elements * element >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
  const std::size_t chunk = std::min(kReduceChunk, kSlotBytes / ranks / kPage * kPage) / element;
  for (std::size_t at = begin; at < end; at += chunk) {
    const std::size_t count = std::min(chunk, end - at);
    std::byte* scratch = slot(rank_, 0);
    for (int peer = 0; peer < size_; ++peer) {
      const std::byte*& input = inputs_[static_cast<std::size_t>(peer)];
      input = operands.input + at * element;
      if (peer == rank_) continue;
      auto read =
          memories_.Read(peer, call_of(peer).readable + at * element, scratch, count * element);
      if (!read) return read;
      input = scratch;
      scratch += chunk * element;
    }
    std::byte* output = rank_ == root ? operands.output + at * element : result_slot(rank_, 0);
    reduce::Reduce(reduction_, inputs_, {&output, 1}, count,
                   rank_ == root ? stores : Stores::kCached);
    if (rank_ == root) continue;
    auto written =
        memories_.Write(root, output, call_of(root).writable + at * element, count * element);
    if (!written) return written;
  }
  return {};
}

}  // namespace espalier::runtime
