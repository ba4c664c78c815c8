// Of SharedCollectives: calls between registered buffers, which ranks have mapped.
#include <algorithm>
#include <cstddef>

#include "collective/reduce/reduce.h"
#include "collective/runtime/calls/operands.h"
#include "collective/runtime/shared/shared_area.h"
#include "collective/runtime/shared/shared_collectives.h"

namespace espalier::runtime {

using program::CollectiveKind;
using reduce::Stores;

// All ranks see the same lines, so that they decide alike.
bool SharedCollectives::IsDirect(const CallSignature& call) const {
  const auto has = [&](int rank, RegisteredPlace SharedCall::*buffer) {
    return (call_of(rank).*buffer).file >= 0;
  };
  const auto all_have = [&](RegisteredPlace SharedCall::*buffer) {
    for (int peer = 0; peer < size_; ++peer) {
      if (!has(peer, buffer)) return false;
    }
    return true;
  };
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return all_have(&SharedCall::input);
    case CollectiveKind::kBroadcast:
      return has(call.root, &SharedCall::input) && all_have(&SharedCall::output);
    case CollectiveKind::kReduce:
      return all_have(&SharedCall::input) && has(call.root, &SharedCall::output);
    case CollectiveKind::kAllReduce:
      return all_have(&SharedCall::input) && all_have(&SharedCall::output);
    default:
      return false;
  }
}

Result<const std::byte*> SharedCollectives::ReachInput(const Operands& operands, int peer) {
  if (peer == rank_) return operands.input;
  const auto bytes = BytesOf(call_.kind, operands, call_.root, peer, size_).input;
  return registered_.Reach(peer, call_of(peer).input, bytes);
}

Result<std::byte*> SharedCollectives::ReachOutput(const Operands& operands, int peer) {
  if (peer == rank_) return operands.output;
  const auto bytes = BytesOf(call_.kind, operands, call_.root, peer, size_).output;
  return registered_.Reach(peer, call_of(peer).output, bytes);
}

Result<void> SharedCollectives::RunMapped(const Operands& operands, const CallSignature& call) {
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return CopyMapped(operands, call.kind);
    case CollectiveKind::kBroadcast:
      return SpreadMapped(operands, call.root);
    default:
      return ReduceMapped(operands, call);
  }
}

// Allgather and alltoall: a part of each rank's input, to this rank's output.
Result<void> SharedCollectives::CopyMapped(const Operands& operands, CollectiveKind kind) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const bool gathers = kind == CollectiveKind::kAllGather;
  const Stores stores = CopyStores(LongestPart(operands, kSlotBytes).count * element);
  for (int step = 0; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    auto input = ReachInput(operands, peer);
    if (!input) return Propagate(input);
    const std::byte* from = *input + (gathers ? 0 : operands.BeginOf(rank_) * element);
    std::byte* to = operands.output + operands.BeginOf(peer) * element;
    if (from == to) continue;
    reduce::Copy(from, to, operands.PartOf(gathers ? peer : rank_) * element, stores);
  }
  return {};
}

// As Spread: the root writes the last of as many parts as there are ranks to each.
Result<void> SharedCollectives::SpreadMapped(const Operands& operands, int root) {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  const std::size_t begin = bytes - bytes / inputs_.size() / kLine * kLine;  // of the last part
  const Stores stores = CopyStores(bytes / inputs_.size());
  if (rank_ != root) {
    auto input = ReachInput(operands, root);
    if (!input) return Propagate(input);
    reduce::Copy(*input, operands.output, begin, stores);
    return {};
  }
  for (int step = 1; step < size_; ++step) {
    auto output = ReachOutput(operands, (rank_ + step) % size_);
    if (!output) return Propagate(output);
    reduce::Copy(operands.input + begin, *output + begin, bytes - begin, stores);
  }
  return {};
}

// What is reduced: this rank's share of all inputs, to all outputs or to the root's; of a
// reduce-scatter its part, to its own.
Result<void> SharedCollectives::ReduceMapped(const Operands& operands, const CallSignature& call) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const bool scatters = call.kind == CollectiveKind::kReduceScatter;
  std::size_t begin = operands.BeginOf(rank_);
  std::size_t count = operands.PartOf(rank_);
  if (!scatters) {
    const std::size_t share =
        RoundToLines((operands.elements + inputs_.size() - 1) / inputs_.size(), element);
    begin = std::min(operands.elements, share * static_cast<std::size_t>(rank_));
    count = std::min(operands.elements - begin, share);
  }
  for (int peer = 0; peer < size_; ++peer) {
    auto input = ReachInput(operands, peer);
    if (!input) return Propagate(input);
    inputs_[static_cast<std::size_t>(peer)] = *input + begin * element;
  }
  const int only = scatters ? rank_ : call.kind == CollectiveKind::kReduce ? call.root : kAll;
  outputs_.clear();
  for (int peer = 0; peer < size_; ++peer) {
    if (only != kAll && peer != only) continue;
    auto output = ReachOutput(operands, peer);
    if (!output) return Propagate(output);
    outputs_.push_back(*output + (scatters ? 0 : begin * element));
  }
  const bool streams = count * outputs_.size() * element >= kStreamFrom;
  reduce::Reduce(reduction_, inputs_, outputs_, count,
                 streams ? Stores::kStreaming : Stores::kCached);
  return {};
}

}  // namespace espalier::runtime
