#include "collective/runtime/shared/zero_copy_collectives.h"

#include <algorithm>

#include "collective/reduce/reduce.h"
#include "collective/runtime/shared/pieces.h"

namespace espalier::runtime {

using program::CollectiveKind;
using reduce::Stores;

// All ranks read the same published descriptions and therefore decide alike.
bool ZeroCopyCollectives::CanServe(const CallSignature& call) const {
  const auto has = [&](int rank, RegisteredPlace SharedCall::*buffer) {
    return (context_.call_of(rank).*buffer).file >= 0;
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

Result<const std::byte*> ZeroCopyCollectives::MapPeerInput(const Operands& operands, int peer) {
  if (peer == rank_) return operands.input;
  const CallSignature& call = context_.call();
  const auto bytes = BytesOf(call.kind, operands, call.root, peer, size_).input;
  return context_.registered().Reach(peer, context_.call_of(peer).input, bytes);
}

Result<std::byte*> ZeroCopyCollectives::MapPeerOutput(const Operands& operands, int peer) {
  if (peer == rank_) return operands.output;
  const CallSignature& call = context_.call();
  const auto bytes = BytesOf(call.kind, operands, call.root, peer, size_).output;
  return context_.registered().Reach(peer, context_.call_of(peer).output, bytes);
}

Result<void> ZeroCopyCollectives::Run(const Operands& operands, const CallSignature& call) {
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return CopyParts(operands, call.kind);
    case CollectiveKind::kBroadcast:
      return Spread(operands, call.root);
    default:
      return Reduce(operands, call);
  }
}

// Allgather and alltoall: copies a part of each rank's input to this rank's output.
Result<void> ZeroCopyCollectives::CopyParts(const Operands& operands, CollectiveKind kind) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const bool gathers = kind == CollectiveKind::kAllGather;
  const Stores stores =
      context_.CopyStores(LongestPart(operands, size_, kSlotBytes).count * element);
  for (int step = 0; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    auto input = MapPeerInput(operands, peer);
    if (!input) return Propagate(input);
    const std::byte* from = *input + (gathers ? 0 : operands.BeginOf(rank_) * element);
    std::byte* to = operands.output + operands.BeginOf(peer) * element;
    if (from == to) continue;
    reduce::Copy(from, to, operands.PartOf(gathers ? peer : rank_) * element, stores);
  }
  return {};
}

// Broadcast: each rank reads all but the last of `size` parts from the root, and the root writes
// that last part to each of them. All ranks copy the same number of bytes.
Result<void> ZeroCopyCollectives::Spread(const Operands& operands, int root) {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t begin = bytes - bytes / ranks / kLine * kLine;  // of the last part
  const Stores stores = context_.CopyStores(bytes / ranks);
  if (rank_ != root) {
    auto input = MapPeerInput(operands, root);
    if (!input) return Propagate(input);
    reduce::Copy(*input, operands.output, begin, stores);
    return {};
  }
  for (int step = 1; step < size_; ++step) {
    auto output = MapPeerOutput(operands, (rank_ + step) % size_);
    if (!output) return Propagate(output);
    reduce::Copy(operands.input + begin, *output + begin, bytes - begin, stores);
  }
  return {};
}

// Allreduce and reduce: reduces this rank's share of all inputs into all outputs, or into the
// root's. Reduce_scatter: reduces this rank's part into its own output.
Result<void> ZeroCopyCollectives::Reduce(const Operands& operands, const CallSignature& call) {
  auto& inputs = context_.inputs();
  const std::size_t element = reduce::SizeOf(operands.type);
  const bool scatters = call.kind == CollectiveKind::kReduceScatter;
  std::size_t begin = operands.BeginOf(rank_);
  std::size_t count = operands.PartOf(rank_);
  if (!scatters) {
    const std::size_t share =
        RoundToLines((operands.elements + inputs.size() - 1) / inputs.size(), element);
    begin = std::min(operands.elements, share * static_cast<std::size_t>(rank_));
    count = std::min(operands.elements - begin, share);
  }
  for (int peer = 0; peer < size_; ++peer) {
    auto input = MapPeerInput(operands, peer);
    if (!input) return Propagate(input);
    inputs[static_cast<std::size_t>(peer)] = *input + begin * element;
  }
  const int only = scatters ? rank_ : call.kind == CollectiveKind::kReduce ? call.root : kAllRanks;
  outputs_.clear();
  for (int peer = 0; peer < size_; ++peer) {
    if (only != kAllRanks && peer != only) continue;
    auto output = MapPeerOutput(operands, peer);
    if (!output) return Propagate(output);
    outputs_.push_back(*output + (scatters ? 0 : begin * element));
  }
  reduce::Reduce(context_.reduction(), inputs, outputs_, count,
                 StoresFor(count * outputs_.size() * element));
  return {};
}

}  // namespace espalier::runtime
