#include "collective/runtime/shared/staged_collectives.h"

#include <algorithm>
#include <span>

#include "collective/runtime/shared/pieces.h"
#include "common/base/check.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using reduce::Stores;

// A part is cut into at least this many pieces, so that copies in and out overlap.
constexpr std::size_t kPiecesAtLeast = 4;
constexpr std::size_t kLeastPiece = 16 << 10;
constexpr std::size_t kStreamedPiece = 64 << 10;
constexpr std::size_t kDepth = 8;
// Where ranks share cores: bytes of a place, and the minimum for one part.
constexpr std::size_t kSharedCoresPlace = 256 << 10;
constexpr std::size_t kSharedCoresPiece = 64 << 10;

}  // namespace

Result<void> StagedCollectives::Run(const Operands& operands, const CallSignature& call) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce(operands);
    case CollectiveKind::kAllGather:
      return AllGather(operands);
    case CollectiveKind::kReduceScatter:
      return Scatter(operands, true);
    case CollectiveKind::kAllToAll:
      return Scatter(operands, false);
    case CollectiveKind::kBroadcast:
      return Broadcast(operands, call.root);
    case CollectiveKind::kReduce:
      return ReduceToRoot(operands, call.root);
    default:
      return {};  // a barrier: all ranks have arrived
  }
}

// A software pipeline of three stages: iteration i copies piece i in, reduces piece i - 1 and
// copies piece i - 2 out. Slots and results have two places each, chosen by the parity of the
// piece. The barrier at the end of an iteration orders the reads of a place before its next write
// two iterations later. A rank copies in only the shares that its peers reduce, and reads its own
// share from its input. Cost: pieces + 1 barriers.
Result<void> StagedCollectives::AllReduce(const Operands& operands) {
  auto& inputs = context_.inputs();
  const std::size_t element = reduce::SizeOf(operands.type);
  const Pieces pieces = {operands.elements, kSlotBytes / element, element};
  const Stores stores = StoresFor(pieces.count * element);
  // If slots and output use the same kind of stores, one pass writes a rank's share to both.
  const bool at_once = stores == slot_stores_;
  struct Share {
    std::size_t offset;
    std::size_t elements;
  };
  const auto share_of = [&](int rank, std::size_t piece) -> Share {
    const std::size_t elements = pieces.Elements(piece);
    const std::size_t share = RoundToLines((elements + ranks() - 1) / ranks(), element);
    const std::size_t begin = std::min(elements, share * static_cast<std::size_t>(rank));
    return {begin * element, std::min(elements, begin + share) - begin};
  };
  for (std::size_t i = 0; i < pieces.size() + 2; ++i) {
    if (i < pieces.size()) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        const auto [offset, elements] = share_of(peer, i);
        reduce::Copy(operands.input + pieces.Offset(i) + offset, context_.slot(rank_, i) + offset,
                     elements * element, slot_stores_);
      }
    }
    if (i >= 1 && i - 1 < pieces.size()) {
      const auto [offset, elements] = share_of(rank_, i - 1);
      for (int peer = 0; peer < size_; ++peer) {
        inputs[static_cast<std::size_t>(peer)] =
            peer == rank_ ? operands.input + pieces.Offset(i - 1) + offset
                          : context_.slot(peer, i - 1) + offset;
      }
      std::byte* const results[] = {context_.result_slot(rank_, i - 1) + offset,
                                    operands.output + pieces.Offset(i - 1) + offset};
      reduce::Reduce(context_.reduction(), inputs, std::span(results, at_once ? 2 : 1), elements,
                     slot_stores_);
    }
    if (i >= 2) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_ && at_once) continue;
        const auto [offset, elements] = share_of(peer, i - 2);
        reduce::Copy(context_.result_slot(peer, i - 2) + offset,
                     operands.output + pieces.Offset(i - 2) + offset, elements * element, stores);
      }
    }
    if (i + 1 == pieces.size() + 2) break;
    auto barrier = context_.Barrier();
    if (!barrier) return barrier;
  }
  return {};
}

StagedCollectives::Ring StagedCollectives::RingFor(std::size_t part_bytes,
                                                   std::size_t parts) const {
  const std::size_t most = kSlotBytes / parts / kLine * kLine;
  // Ranks that share cores use long pieces, so that they wait for each other rarely.
  const std::size_t longest =
      !context_.group().has_cores()
          ? std::max(kSharedCoresPlace / parts / kLine * kLine, kSharedCoresPiece)
      : slot_stores_ == Stores::kStreaming
          ? kStreamedPiece
          : std::clamp(context_.level2_bytes() / kDepth, kStreamedPiece, 4 * kStreamedPiece);
  const std::size_t least = std::min(kLeastPiece, longest);
  const std::size_t wanted =
      std::clamp(part_bytes / kPiecesAtLeast / kPage * kPage, least, longest);
  const std::size_t piece = std::min(context_.group().has_cores() ? wanted : longest, most);
  const std::size_t stride = piece * parts;
  ESPALIER_CHECK(stride > 0, "parts={}", parts);
  return {.piece = piece, .stride = stride, .depth = std::min(kDepth, 2 * kSlotBytes / stride)};
}

Result<void> StagedCollectives::AllGather(const Operands& operands) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Ring ring = RingFor(LongestPart(operands, size_, kSlotBytes).count * element, 1);
  const Pieces longest = LongestPart(operands, size_, ring.piece);
  const Stores stores = context_.CopyStores(longest.count * element);
  const auto part_of = [&](int rank) {
    return Pieces{operands.PartOf(rank), longest.length, element};
  };
  std::byte* own = operands.output + operands.BeginOf(rank_) * element;
  const auto publish = [&](std::size_t i) {
    const Pieces part = part_of(rank_);
    if (part.Bytes(i) == 0) return;
    const std::byte* from = operands.input + part.Offset(i);
    reduce::Copy(from, place(rank_, ring, i), part.Bytes(i), slot_stores_);
    if (own != operands.input) reduce::Copy(from, own + part.Offset(i), part.Bytes(i), stores);
  };
  const auto consume = [&](std::size_t i) {
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      const Pieces part = part_of(peer);
      if (part.Bytes(i) == 0) continue;
      reduce::Copy(place(peer, ring, i),
                   operands.output + operands.BeginOf(peer) * element + part.Offset(i),
                   part.Bytes(i), stores);
    }
  };
  return exchange_.Run(longest.size(), ring.depth, {}, publish, consume);
}

// Reduce_scatter and alltoall, whose inputs have a part for each rank.
Result<void> StagedCollectives::Scatter(const Operands& operands, bool reduces) {
  auto& inputs = context_.inputs();
  const std::size_t element = reduce::SizeOf(operands.type);
  const Ring ring = RingFor(LongestPart(operands, size_, kSlotBytes).count * element, ranks());
  const Pieces longest = LongestPart(operands, size_, ring.piece);
  const std::size_t part_bytes = longest.count * element;
  const Stores stores = reduces ? StoresFor(part_bytes) : context_.CopyStores(part_bytes);
  const auto part_of = [&](int rank) {
    return Pieces{operands.PartOf(rank), longest.length, element};
  };
  const auto begin_of = [&](int rank) { return operands.BeginOf(rank) * element; };
  // A place has room for each rank.
  const auto place_for = [&](int from, int to, std::size_t i) {
    return place(from, ring, i) + static_cast<std::size_t>(to) * ring.piece;
  };
  const auto publish = [&](std::size_t i) {
    for (int peer = 0; peer < size_; ++peer) {
      const Pieces part = part_of(peer);
      if (peer == rank_ || part.Bytes(i) == 0) continue;
      reduce::Copy(operands.input + begin_of(peer) + part.Offset(i), place_for(rank_, peer, i),
                   part.Bytes(i), slot_stores_);
    }
    const Pieces own = part_of(rank_);
    const std::size_t at = begin_of(rank_) + own.Offset(i);
    const bool moves = !reduces && operands.input != operands.output;
    if (moves) reduce::Copy(operands.input + at, operands.output + at, own.Bytes(i), stores);
  };
  const auto consume = [&](std::size_t i) {
    const Pieces part = part_of(rank_);
    if (part.Bytes(i) == 0) return;
    for (int peer = 0; peer < size_; ++peer) {
      inputs[static_cast<std::size_t>(peer)] =
          peer == rank_ ? operands.input + begin_of(rank_) + part.Offset(i)
                        : place_for(peer, rank_, i);
    }
    if (reduces) {
      std::byte* output = operands.output + part.Offset(i);
      reduce::Reduce(context_.reduction(), inputs, {&output, 1}, part.Elements(i), stores);
      return;
    }
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      reduce::Copy(place_for(peer, rank_, i), operands.output + begin_of(peer) + part.Offset(i),
                   part.Bytes(i), stores);
    }
  };
  return exchange_.Run(longest.size(), ring.depth, {}, publish, consume);
}

Result<void> StagedCollectives::Broadcast(const Operands& operands, int root) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Ring ring = RingFor(operands.elements * element, 1);
  const Pieces pieces = {operands.elements, ring.piece / element, element};
  const auto publish = [&](std::size_t i) {
    const std::byte* from = operands.input + pieces.Offset(i);
    reduce::Copy(from, place(root, ring, i), pieces.Bytes(i), slot_stores_);
    std::byte* own = operands.output + pieces.Offset(i);
    if (own != from) reduce::Copy(from, own, pieces.Bytes(i));
  };
  const auto consume = [&](std::size_t i) {
    if (rank_ == root) return;
    reduce::Copy(place(root, ring, i), operands.output + pieces.Offset(i), pieces.Bytes(i));
  };
  return exchange_.Run(pieces.size(), ring.depth, {.writer = root}, publish, consume);
}

Result<void> StagedCollectives::ReduceToRoot(const Operands& operands, int root) {
  auto& inputs = context_.inputs();
  const std::size_t element = reduce::SizeOf(operands.type);
  const Ring ring = RingFor(operands.elements * element, 1);
  const Pieces pieces = {operands.elements, ring.piece / element, element};
  const Stores stores = StoresFor(pieces.count * element);
  const auto publish = [&](std::size_t i) {
    if (rank_ == root) return;
    reduce::Copy(operands.input + pieces.Offset(i), place(rank_, ring, i), pieces.Bytes(i),
                 slot_stores_);
  };
  const auto consume = [&](std::size_t i) {
    for (int peer = 0; peer < size_; ++peer) {
      inputs[static_cast<std::size_t>(peer)] =
          peer == root ? operands.input + pieces.Offset(i) : place(peer, ring, i);
    }
    std::byte* output = operands.output + pieces.Offset(i);
    reduce::Reduce(context_.reduction(), inputs, {&output, 1}, pieces.Elements(i), stores);
  };
  return exchange_.Run(pieces.size(), ring.depth, {.reader = root}, publish, consume);
}

}  // namespace espalier::runtime
