#include "collective/runtime/shared_collectives.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "collective/runtime/shared_area.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using reduce::Stores;
using transport::Counter;

// Element ranges are cut at lines, so that ranks do not write to one line, and streams stay
// aligned.
std::size_t RoundToLines(std::size_t elements, std::size_t element) {
  const std::size_t per_line = kLine / element;
  return (elements + per_line - 1) / per_line * per_line;
}

std::size_t Level2Bytes() {
  constexpr std::size_t kUsual = 1 << 20;
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kUsual;
}

}  // namespace

SharedCollectives::SharedCollectives(std::unique_ptr<transport::SharedGroup> group,
                                     const Costs& costs, std::optional<SharedWay> way)
    : group_(std::move(group)),
      costs_(costs),
      way_(way),
      rank_(group_->rank()),
      size_(group_->size()),
      inputs_(static_cast<std::size_t>(size_)),
      outputs_(static_cast<std::size_t>(size_)) {
  static_assert(offsetof(SharedCall, small) == kLine, "the smallest calls are one line");
  area(rank_).owner = memories_.owner();
  area(rank_).level2_bytes = Level2Bytes();
}

std::size_t SharedCollectives::MemoryOf(int size) {
  return sizeof(RankArea) * static_cast<std::size_t>(std::max(size, 0));
}

SharedCollectives::RankArea& SharedCollectives::area(int rank) const {
  return reinterpret_cast<RankArea*>(group_->memory())[rank];
}
SharedCollectives::SharedCall& SharedCollectives::call_of(int rank) const {
  return area(rank).calls[calls_ % 2];
}
std::byte* SharedCollectives::slot(int rank, std::size_t piece) const {
  return area(rank).slots[piece % 2];
}
std::byte* SharedCollectives::result_slot(int rank, std::size_t piece) const {
  return area(rank).results[piece % 2];
}

Result<void> SharedCollectives::AwaitPeer(Counter& counter, std::uint32_t value, int peer) {
  while (true) {
    const std::uint32_t seen = counter.value.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - value) >= 0) return {};
    if (group_->Spin(counter, seen)) continue;
    auto changed = transport::WaitInNaps(
        patience_, [&](transport::Deadline nap) { return group_->Await(counter, seen, nap); });
    if (changed) continue;
    return Fail(changed.error().code,
                fmt::format("{} (rank {} waited for rank {} in {})", changed.error().message, rank_,
                            peer, Describe(call_)));
  }
}

// A line may be written again when this rank has seen all others in the call after: they have then
// read it.
Result<void> SharedCollectives::Enter(const Operands& operands, const CallSignature& call,
                                      bool is_small) {
  const std::uint32_t number = ++calls_;
  SharedCall& mine = call_of(rank_);
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  mine.tag = ToTag(call);
  if (is_small) {
    reduce::Copy(operands.input, mine.PlaceFor(bytes), bytes);
  } else {
    mine.input = registered_.Find(operands.input, bytes).value_or(RegisteredPlace{});
    mine.output = registered_.Find(operands.output, bytes).value_or(RegisteredPlace{});
    const bool stays = call.kind != CollectiveKind::kAllToAll || operands.input != operands.output;
    mine.readable = stays ? operands.input : nullptr;
    mine.writable = operands.output;
    mine.reads_all = memories_.ReadsAll();
    mine.writes_all = memories_.WritesAll();
  }
  mine.arrived.Set(number);
  for (int peer = 0; peer < size_; ++peer) {
    SharedCall& theirs = call_of(peer);
    auto arrived = AwaitPeer(theirs.arrived, number, peer);
    if (!arrived) return arrived;
    if (theirs.tag != mine.tag) {
      return tl::unexpected(MismatchError(peer, FromTag(theirs.tag), rank_, call));
    }
  }
  return {};
}

Result<void> SharedCollectives::Meet() {
  area(rank_).met.Set(++meetings_);
  for (int peer = 0; peer < size_; ++peer) {
    auto met = AwaitPeer(area(peer).met, meetings_, peer);
    if (!met) return met;
  }
  return {};
}

bool SharedCollectives::IsSmall(const Operands& operands, const CallSignature& call) const {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  if (call.kind != CollectiveKind::kAllReduce || bytes > kMostSmallBytes) return false;
  if (way_) return *way_ == SharedWay::kSmall;
  if (bytes <= kSmallestBytes) return true;  // two meetings less
  return Predict(costs_, SharedWork(SharedWay::kSmall, size_, bytes, costs_.lanes)) <=
         Predict(costs_, SharedWork(SharedWay::kSlots, size_, bytes, costs_.lanes));
}

bool SharedCollectives::IsDirect(const CallSignature& call) const {
  if (call.kind != CollectiveKind::kAllReduce) return false;
  for (int peer = 0; peer < size_; ++peer) {
    const SharedCall& theirs = call_of(peer);
    if (theirs.input.file < 0 || theirs.output.file < 0) return false;
  }
  return true;
}

Result<void> SharedCollectives::Run(const Operands& operands, const CallSignature& call,
                                    const transport::Patience& patience) {
  patience_ = patience;
  call_ = call;
  reduction_ = {.type = operands.type,
                .op = operands.op,
                .divisor = operands.op == reduce::ReduceOp::kAvg ? size_ : 1};
  auto done = RunCall(operands, call);
  if (!done) group_->Abort(done.error());
  return done;
}

Result<void> SharedCollectives::RunCall(const Operands& operands, const CallSignature& call) {
  const bool is_small = IsSmall(operands, call);
  auto entered = Enter(operands, call, is_small);
  if (!entered) return entered;
  if (calls_ == 1) MeetMemories();
  if (is_small) {
    ReduceSmall(operands);
    return {};
  }
  if (IsRead(operands, call)) return RunByReading(operands, call);
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return IsDirect(call) ? AllReduceDirect(operands) : AllReduceBySlots(operands);
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
      return {};  // a barrier: all have entered
  }
}

void SharedCollectives::ReduceSmall(const Operands& operands) {
  if (operands.elements == 0) return;
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  for (int peer = 0; peer < size_; ++peer) {
    inputs_[static_cast<std::size_t>(peer)] = call_of(peer).PlaceFor(bytes);
  }
  reduce::Reduce(reduction_, inputs_, {&operands.output, 1}, operands.elements);
}

Result<void> SharedCollectives::AllReduceDirect(const Operands& operands) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t share =
      RoundToLines((operands.elements + inputs_.size() - 1) / inputs_.size(), element);
  const std::size_t begin = std::min(operands.elements, share * static_cast<std::size_t>(rank_));
  const std::size_t end = std::min(operands.elements, begin + share);
  for (int peer = 0; peer < size_; ++peer) {
    const SharedCall& theirs = call_of(peer);
    auto input = registered_.Reach(peer, theirs.input);
    if (!input) return Propagate(input);
    auto output = registered_.Reach(peer, theirs.output);
    if (!output) return Propagate(output);
    inputs_[static_cast<std::size_t>(peer)] = *input + begin * element;
    outputs_[static_cast<std::size_t>(peer)] = *output + begin * element;
  }
  const bool streams = operands.elements * element >= kStreamFrom;
  reduce::Reduce(reduction_, inputs_, outputs_, end - begin,
                 streams ? Stores::kStreaming : Stores::kCached);
  return Meet();
}

// In iteration i pieces i, i - 1 and i - 2 are copied in, reduced and copied out.
Result<void> SharedCollectives::AllReduceBySlots(const Operands& operands) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Pieces pieces = {operands.elements, kSlotBytes / element, element};
  const Stores stores =
      pieces.count * element >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
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
                     elements * element);
      }
    }
    if (i >= 1 && i - 1 < pieces.size()) {
      const auto [offset, elements] = share_of(rank_, i - 1);
      for (int peer = 0; peer < size_; ++peer) {
        inputs_[static_cast<std::size_t>(peer)] =
            peer == rank_ ? operands.input + pieces.Offset(i - 1) + offset
                          : slot(peer, i - 1) + offset;
      }
      std::byte* result = result_slot(rank_, i - 1) + offset;
      reduce::Reduce(reduction_, inputs_, {&result, 1}, elements);
    }
    if (i >= 2) {
      for (int peer = 0; peer < size_; ++peer) {
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

template <typename Publish, typename Consume>
Result<void> SharedCollectives::Exchange(std::size_t pieces, const Publish& publish,
                                         const Consume& consume) {
  for (std::size_t i = 0; i <= pieces && pieces > 0; ++i) {
    if (i < pieces) publish(i);
    if (i > 0) consume(i - 1);
    if (i == pieces) break;
    auto met = Meet();
    if (!met) return met;
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
  const Pieces longest = LongestPart(operands, kSlotBytes);
  const std::size_t element = longest.element;
  const Stores stores =
      longest.count * element >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
  const auto part_of = [&](int rank) {
    return Pieces{operands.PartOf(rank), longest.length, element};
  };
  std::byte* own = operands.output + operands.BeginOf(rank_) * element;
  const auto publish = [&](std::size_t i) {
    const Pieces part = part_of(rank_);
    if (part.Bytes(i) == 0) return;
    const std::byte* from = operands.input + part.Offset(i);
    reduce::Copy(from, slot(rank_, i), part.Bytes(i));
    if (own != operands.input) reduce::Copy(from, own + part.Offset(i), part.Bytes(i), stores);
  };
  const auto consume = [&](std::size_t i) {
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      const Pieces part = part_of(peer);
      if (part.Bytes(i) == 0) continue;
      reduce::Copy(slot(peer, i),
                   operands.output + operands.BeginOf(peer) * element + part.Offset(i),
                   part.Bytes(i), stores);
    }
  };
  return Exchange(longest.size(), publish, consume);
}

// Reduce-scatter and alltoall: a part of the input for each rank.
Result<void> SharedCollectives::Scatter(const Operands& operands, bool reduces) {
  const Pieces longest = LongestPart(operands, kSlotBytes / inputs_.size());
  const std::size_t element = longest.element;
  const Stores stores =
      longest.count * element >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
  const auto part_of = [&](int rank) {
    return Pieces{operands.PartOf(rank), longest.length, element};
  };
  const auto begin_of = [&](int rank) { return operands.BeginOf(rank) * element; };
  // A slot has a place for each rank.
  const auto place_in = [&](std::byte* slot, int rank) {
    return slot + static_cast<std::size_t>(rank) * longest.length * element;
  };
  const auto publish = [&](std::size_t i) {
    for (int peer = 0; peer < size_; ++peer) {
      const Pieces part = part_of(peer);
      if (peer == rank_ || part.Bytes(i) == 0) continue;
      reduce::Copy(operands.input + begin_of(peer) + part.Offset(i), place_in(slot(rank_, i), peer),
                   part.Bytes(i));
    }
  };
  const auto consume = [&](std::size_t i) {
    const Pieces part = part_of(rank_);
    if (part.Bytes(i) == 0) return;
    for (int peer = 0; peer < size_; ++peer) {
      inputs_[static_cast<std::size_t>(peer)] =
          peer == rank_ ? operands.input + begin_of(rank_) + part.Offset(i)
                        : place_in(slot(peer, i), rank_);
    }
    if (reduces) {
      std::byte* output = operands.output + part.Offset(i);
      reduce::Reduce(reduction_, inputs_, {&output, 1}, part.Elements(i), stores);
      return;
    }
    for (int peer = 0; peer < size_; ++peer) {
      std::byte* output = operands.output + begin_of(peer) + part.Offset(i);
      const std::byte* from = inputs_[static_cast<std::size_t>(peer)];
      if (from != output) reduce::Copy(from, output, part.Bytes(i), stores);
    }
  };
  return Exchange(longest.size(), publish, consume);
}

// Bytes of a piece where some ranks only write and others only read, at the same time if each has a
// core. What lies in the writer's own cache is slow to fetch: the two slots are as large as that,
// so that what is read has been pushed out to the cache of all; of much data twice as large.
std::size_t SharedCollectives::OneWayPiece(const Operands& operands) const {
  if (costs_.lanes < size_) return kSlotBytes;
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  const std::size_t longest = bytes < 4 * level2_bytes_ ? level2_bytes_ / 2 : level2_bytes_;
  return std::clamp(std::min(bytes / 2, longest) / kPage * kPage, kSlotBytes / 16, kSlotBytes);
}

Result<void> SharedCollectives::Broadcast(const Operands& operands, int root) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Pieces pieces = {operands.elements, OneWayPiece(operands) / element, element};
  const Stores stores =
      pieces.count * element >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
  const auto publish = [&](std::size_t i) {
    if (rank_ != root) return;
    const std::byte* from = operands.input + pieces.Offset(i);
    reduce::Copy(from, slot(root, i), pieces.Bytes(i));
    std::byte* own = operands.output + pieces.Offset(i);
    if (own != from) reduce::Copy(from, own, pieces.Bytes(i), stores);
  };
  const auto consume = [&](std::size_t i) {
    if (rank_ == root) return;
    reduce::Copy(slot(root, i), operands.output + pieces.Offset(i), pieces.Bytes(i), stores);
  };
  return Exchange(pieces.size(), publish, consume);
}

Result<void> SharedCollectives::ReduceToRoot(const Operands& operands, int root) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const Pieces pieces = {operands.elements, OneWayPiece(operands) / element, element};
  const Stores stores =
      pieces.count * element >= kStreamFrom ? Stores::kStreaming : Stores::kCached;
  const auto publish = [&](std::size_t i) {
    if (rank_ == root) return;
    reduce::Copy(operands.input + pieces.Offset(i), slot(rank_, i), pieces.Bytes(i));
  };
  const auto consume = [&](std::size_t i) {
    if (rank_ != root) return;
    for (int peer = 0; peer < size_; ++peer) {
      inputs_[static_cast<std::size_t>(peer)] =
          peer == root ? operands.input + pieces.Offset(i) : slot(peer, i);
    }
    std::byte* output = operands.output + pieces.Offset(i);
    reduce::Reduce(reduction_, inputs_, {&output, 1}, pieces.Elements(i), stores);
  };
  return Exchange(pieces.size(), publish, consume);
}

}  // namespace espalier::runtime
