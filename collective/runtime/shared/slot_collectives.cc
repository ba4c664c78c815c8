// Of SharedCollectives: what goes through slots.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/reduce/reduce.h"
#include "collective/runtime/shared/shared_area.h"
#include "collective/runtime/shared/shared_collectives.h"
#include "common/base/check.h"

namespace espalier::runtime {
namespace {

using reduce::Stores;

// A piece is this part of what goes one way, so that its copies in and out overlap.
constexpr std::size_t kPiecesAtLeast = 4;
constexpr std::size_t kLeastPiece = 16 << 10;
constexpr std::size_t kStreamedPiece = 64 << 10;
constexpr std::size_t kDepth = 8;
// Where ranks share cores: all parts of a piece together, and the least of one.
constexpr std::size_t kSharedCoresPlace = 256 << 10;
constexpr std::size_t kSharedCoresPiece = 64 << 10;

}  // namespace

// In iteration i pieces i, i - 1 and i - 2 are copied in, reduced and copied out.
Result<void> SharedCollectives::AllReduceBySlots(const Operands& operands) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Pieces pieces = {operands.elements, kSlotBytes / element, element};
  const Stores stores =
      pieces.count * element >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
  // Where both are stored alike, a rank's share goes to its output together with its slot.
  const bool at_once = stores == SlotStores();
  struct Share {
    std::size_t offset;
    std::size_t elements;
  };
  const auto share_of = [&](int rank, std::size_t piece) -> Share {
    const std::size_t elements = pieces.Elements(piece);
    const std::size_t share =
        RoundToLines((elements + inputs_.size() - 1) / inputs_.size(), element);
    const std::size_t begin = std::min(elements, share * static_cast<std::size_t>(rank));
    return {begin * element, std::min(elements, begin + share) - begin};
  };
  for (std::size_t i = 0; i < pieces.size() + 2; ++i) {
    if (i < pieces.size()) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        const auto [offset, elements] = share_of(peer, i);
        reduce::Copy(operands.input + pieces.Offset(i) + offset, slot(rank_, i) + offset,
                     elements * element, SlotStores());
      }
    }
    if (i >= 1 && i - 1 < pieces.size()) {
      const auto [offset, elements] = share_of(rank_, i - 1);
      for (int peer = 0; peer < size_; ++peer) {
        inputs_[static_cast<std::size_t>(peer)] =
            peer == rank_ ? operands.input + pieces.Offset(i - 1) + offset
                          : slot(peer, i - 1) + offset;
      }
      std::byte* const results[] = {result_slot(rank_, i - 1) + offset,
                                    operands.output + pieces.Offset(i - 1) + offset};
      reduce::Reduce(reduction_, inputs_, std::span(results, at_once ? 2 : 1), elements,
                     SlotStores());
    }
    if (i >= 2) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_ && at_once) continue;
        const auto [offset, elements] = share_of(peer, i - 2);
        reduce::Copy(result_slot(peer, i - 2) + offset,
                     operands.output + pieces.Offset(i - 2) + offset, elements * element, stores);
      }
    }
    if (i + 1 == pieces.size() + 2) break;
    auto met = Meet();
    if (!met) return met;
  }
  return {};
}

// What lies in a writer's own cache is slow to fetch, and on some machines what another core has
// written at all: so there are as many places as its cache has room for, and what is streamed goes
// past the caches.
Stores SharedCollectives::SlotStores() const {
  return long_way_ == SharedWay::kStreamed ? Stores::kStreaming : Stores::kCached;
}

Stores SharedCollectives::CopyStores(std::size_t part_bytes) const {
  const auto ranks = static_cast<std::size_t>(group_->ranks_a_core());
  return part_bytes * inputs_.size() * ranks >= kStreamCopiesFrom ? Stores::kStreaming
                                                                  : Stores::kCached;
}

SharedCollectives::Ring SharedCollectives::RingFor(std::size_t part_bytes,
                                                   std::size_t parts) const {
  const std::size_t most = kSlotBytes / parts / kLine * kLine;
  // Ranks that share cores wait for one another seldom.
  const std::size_t longest =
      !group_->has_cores() ? std::max(kSharedCoresPlace / parts / kLine * kLine, kSharedCoresPiece)
      : long_way_ == SharedWay::kStreamed
          ? kStreamedPiece
          : std::clamp(level2_bytes_ / kDepth, kStreamedPiece, 4 * kStreamedPiece);
  const std::size_t least = std::min(kLeastPiece, longest);
  const std::size_t wanted =
      std::clamp(part_bytes / kPiecesAtLeast / kPage * kPage, least, longest);
  const std::size_t piece = std::min(group_->has_cores() ? wanted : longest, most);
  const std::size_t stride = piece * parts;
  ESPALIER_CHECK(stride > 0, "parts={}", parts);
  return {.piece = piece, .stride = stride, .depth = std::min(kDepth, 2 * kSlotBytes / stride)};
}

std::byte* SharedCollectives::place(int rank, const Ring& ring, std::size_t piece) const {
  return area(rank).slots + piece % ring.depth * ring.stride;
}

// A writer is ahead of the slowest reader by no more pieces than there are places. The next call
// begins when all have read: no piece is waited for at the end.
template <typename Publish, typename Consume>
Result<void> SharedCollectives::Exchange(std::size_t pieces, std::size_t depth, Roles roles,
                                         const Publish& publish, const Consume& consume) {
  const std::uint32_t before = exchanged_;
  exchanged_ += static_cast<std::uint32_t>(pieces);
  const auto number = [&](std::size_t piece) {
    return before + static_cast<std::uint32_t>(piece) + 1;
  };
  const auto await = [&](int who, transport::Signal RankArea::*counter, std::size_t piece) {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_ || (who != kAll && peer != who)) continue;
      auto done = AwaitPeer(area(peer).*counter, number(piece), peer);
      if (!done) return done;
    }
    return Result<void>();
  };
  const bool writes = roles.writer == kAll || roles.writer == rank_;
  const bool reads = roles.reader == kAll || roles.reader == rank_;
  for (std::size_t i = 0; i <= pieces && pieces > 0; ++i) {
    if (writes && i < pieces) {
      auto free = i < depth ? Result<void>() : await(roles.reader, &RankArea::consumed, i - depth);
      if (!free) return free;
      publish(i);
    }
    // Of ranks that do not write too: what comes after is counted from there.
    if (i < pieces) area(rank_).published.Set(number(i));
    if (i == 0) continue;
    if (reads) {
      auto there = await(roles.writer, &RankArea::published, i - 1);
      if (!there) return there;
      consume(i - 1);
    }
    area(rank_).consumed.Set(number(i - 1));
  }
  return {};
}

SharedCollectives::Pieces SharedCollectives::LongestPart(const Operands& operands,
                                                         std::size_t slot_bytes) const {
  const std::size_t element = reduce::SizeOf(operands.type);
  std::size_t longest = 0;
  for (int peer = 0; peer < size_; ++peer) longest = std::max(longest, operands.PartOf(peer));
  return {longest, slot_bytes / element, element};
}

Result<void> SharedCollectives::AllGather(const Operands& operands) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Ring ring = RingFor(LongestPart(operands, kSlotBytes).count * element, 1);
  const Pieces longest = LongestPart(operands, ring.piece);
  const Stores stores = CopyStores(longest.count * element);
  const auto part_of = [&](int rank) {
    return Pieces{operands.PartOf(rank), longest.length, element};
  };
  std::byte* own = operands.output + operands.BeginOf(rank_) * element;
  const auto publish = [&](std::size_t i) {
    const Pieces part = part_of(rank_);
    if (part.Bytes(i) == 0) return;
    const std::byte* from = operands.input + part.Offset(i);
    reduce::Copy(from, place(rank_, ring, i), part.Bytes(i), SlotStores());
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
  return Exchange(longest.size(), ring.depth, {}, publish, consume);
}

// Reduce-scatter and alltoall: a part of the input for each rank.
Result<void> SharedCollectives::Scatter(const Operands& operands, bool reduces) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Ring ring = RingFor(LongestPart(operands, kSlotBytes).count * element, inputs_.size());
  const Pieces longest = LongestPart(operands, ring.piece);
  const std::size_t part_bytes = longest.count * element;
  const Stores sums = part_bytes >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
  const Stores stores = reduces ? sums : CopyStores(part_bytes);
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
                   part.Bytes(i), SlotStores());
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
      inputs_[static_cast<std::size_t>(peer)] =
          peer == rank_ ? operands.input + begin_of(rank_) + part.Offset(i)
                        : place_for(peer, rank_, i);
    }
    if (reduces) {
      std::byte* output = operands.output + part.Offset(i);
      reduce::Reduce(reduction_, inputs_, {&output, 1}, part.Elements(i), stores);
      return;
    }
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      reduce::Copy(place_for(peer, rank_, i), operands.output + begin_of(peer) + part.Offset(i),
                   part.Bytes(i), stores);
    }
  };
  return Exchange(longest.size(), ring.depth, {}, publish, consume);
}

Result<void> SharedCollectives::Broadcast(const Operands& operands, int root) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Ring ring = RingFor(operands.elements * element, 1);
  const Pieces pieces = {operands.elements, ring.piece / element, element};
  const auto publish = [&](std::size_t i) {
    const std::byte* from = operands.input + pieces.Offset(i);
    reduce::Copy(from, place(root, ring, i), pieces.Bytes(i), SlotStores());
    std::byte* own = operands.output + pieces.Offset(i);
    if (own != from) reduce::Copy(from, own, pieces.Bytes(i));
  };
  const auto consume = [&](std::size_t i) {
    if (rank_ == root) return;
    reduce::Copy(place(root, ring, i), operands.output + pieces.Offset(i), pieces.Bytes(i));
  };
  return Exchange(pieces.size(), ring.depth, {.writer = root}, publish, consume);
}

Result<void> SharedCollectives::ReduceToRoot(const Operands& operands, int root) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Ring ring = RingFor(operands.elements * element, 1);
  const Pieces pieces = {operands.elements, ring.piece / element, element};
  const Stores stores =
      pieces.count * element >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
  const auto publish = [&](std::size_t i) {
    if (rank_ == root) return;
    reduce::Copy(operands.input + pieces.Offset(i), place(rank_, ring, i), pieces.Bytes(i),
                 SlotStores());
  };
  const auto consume = [&](std::size_t i) {
    for (int peer = 0; peer < size_; ++peer) {
      inputs_[static_cast<std::size_t>(peer)] =
          peer == root ? operands.input + pieces.Offset(i) : place(peer, ring, i);
    }
    std::byte* output = operands.output + pieces.Offset(i);
    reduce::Reduce(reduction_, inputs_, {&output, 1}, pieces.Elements(i), stores);
  };
  return Exchange(pieces.size(), ring.depth, {.reader = root}, publish, consume);
}

}  // namespace espalier::runtime
