#include "collective/runtime/shared/single_copy_collectives.h"

#include <algorithm>

#include "collective/reduce/reduce.h"
#include "collective/runtime/shared/pieces.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using reduce::Stores;

constexpr std::size_t kReduceChunk = 128 << 10;

}  // namespace

Result<void> SingleCopyCollectives::Run(const Operands& operands, const CallSignature& call) {
  if (call.kind == CollectiveKind::kBroadcast) return Spread(operands, call.root);
  if (call.kind == CollectiveKind::kReduce) return Collect(operands, call.root);
  return CopyParts(operands, call.kind);
}

// Allgather and alltoall: reads the parts from the memory of each peer.
Result<void> SingleCopyCollectives::CopyParts(const Operands& operands, CollectiveKind kind) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const bool gathers = kind == CollectiveKind::kAllGather;
  const Stores stores =
      context_.CopyStores(LongestPart(operands, size_, kSlotBytes).count * element);
  for (int step = 0; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    const std::size_t bytes = operands.PartOf(gathers ? peer : rank_) * element;
    const std::byte* from = peer == rank_ ? operands.input : context_.call_of(peer).readable;
    if (!gathers) from += operands.BeginOf(rank_) * element;
    std::byte* to = operands.output + operands.BeginOf(peer) * element;
    if (bytes == 0 || (peer == rank_ && from == to)) continue;
    if (peer == rank_) {
      reduce::Copy(from, to, bytes, stores);
      continue;
    }
    auto read = context_.memories().Read(peer, from, to, bytes);
    if (!read) return read;
  }
  return {};
}

// Broadcast: each rank reads all but the last of `size` parts from the root, and the root writes
// that last part to each of them. All ranks copy the same number of bytes.
Result<void> SingleCopyCollectives::Spread(const Operands& operands, int root) {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t begin = bytes - bytes / ranks / kLine * kLine;  // of the last part
  if (rank_ != root)
    return context_.memories().Read(root, context_.call_of(root).readable, operands.output, begin);
  if (operands.output != operands.input) {
    reduce::Copy(operands.input, operands.output, bytes, StoresFor(bytes));
  }
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    auto written = context_.memories().Write(
        peer, operands.input + begin, context_.call_of(peer).writable + begin, bytes - begin);
    if (!written) return written;
  }
  return {};
}

// Reduce: each rank reads its share of all inputs, chunk by chunk, and reduces it; all but the root
// then write it to the root. With n ranks and E elements the root reduces E n / (n + (n - 1)^2)
// elements and every other rank E (n - 1) / (n + (n - 1)^2). The root then transfers n - 1 times
// its share and the others n times theirs, which is the same number of bytes. Chunks stay in the
// cache.
Result<void> SingleCopyCollectives::Collect(const Operands& operands, int root) {
  auto& inputs = context_.inputs();
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t ranks = inputs.size();
  const std::size_t others = ranks - 1;
  const std::size_t share = operands.elements * others / (ranks + others * others) / kLine * kLine;
  const std::size_t roots = operands.elements - others * share;
  const auto place = static_cast<std::size_t>((rank_ - root + size_) % size_);  // from the root
  const std::size_t begin = place == 0 ? 0 : roots + (place - 1) * share;
  const std::size_t end = begin + (place == 0 ? roots : share);
  const Stores stores = StoresFor(operands.elements * element);
  const std::size_t chunk = std::min(kReduceChunk, kSlotBytes / ranks / kPage * kPage) / element;
  for (std::size_t at = begin; at < end; at += chunk) {
    const std::size_t count = std::min(chunk, end - at);
    std::byte* scratch = context_.slot(rank_, 0);
    for (int peer = 0; peer < size_; ++peer) {
      const std::byte*& input = inputs[static_cast<std::size_t>(peer)];
      input = operands.input + at * element;
      if (peer == rank_) continue;
      auto read = context_.memories().Read(peer, context_.call_of(peer).readable + at * element,
                                           scratch, count * element);
      if (!read) return read;
      input = scratch;
      scratch += chunk * element;
    }
    std::byte* output =
        rank_ == root ? operands.output + at * element : context_.result_slot(rank_, 0);
    reduce::Reduce(context_.reduction(), inputs, {&output, 1}, count,
                   rank_ == root ? stores : Stores::kCached);
    if (rank_ == root) continue;
    auto written = context_.memories().Write(
        root, output, context_.call_of(root).writable + at * element, count * element);
    if (!written) return written;
  }
  return {};
}

}  // namespace espalier::runtime
