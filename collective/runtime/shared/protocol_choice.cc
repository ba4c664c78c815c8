#include "collective/runtime/shared/protocol_choice.h"

#include <bit>
#include <cstdint>

#include "collective/runtime/shared/pieces.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

// Where ranks share cores, timing lasts until all ranks have ended the call, which costs a barrier.
constexpr std::uint32_t kTimeEvery = 8;
// Classes of calls for online tuning: by kind and by power of two of the bytes.
constexpr std::size_t kSizeClasses = 65;
constexpr std::size_t kCallClasses =
    (static_cast<std::size_t>(CollectiveKind::kCustom) + 1) * kSizeClasses;
// Smaller parts are staged, because a system call costs more than a copy.
constexpr std::size_t kSingleCopyFrom = 32 << 10;
constexpr std::size_t kStreamingFrom = 256 << 10;

}  // namespace

ProtocolChoice::ProtocolChoice(const SharedContext& context, const Costs& costs,
                               std::optional<SharedProtocolKind> forced)
    : context_(context),
      costs_(costs),
      forced_(forced),
      times_(kCallClasses, context.group().has_cores() ? 1 : kTimeEvery) {}

bool ProtocolChoice::IsSmall(const Operands& operands, const CallSignature& call) const {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  if (call.kind != CollectiveKind::kAllReduce || bytes > kMaxSmallBytes) return false;
  if (forced_) return *forced_ == SharedProtocolKind::kSmall;
  if (bytes <= kSmallestBytes) return true;  // saves two barriers
  const int size = context_.size();
  return Predict(costs_, SharedWork(SharedProtocolKind::kSmall, size, bytes, costs_.lanes)) <=
         Predict(costs_, SharedWork(SharedProtocolKind::kStaged, size, bytes, costs_.lanes));
}

// In a broadcast the chooser is a rank that reads.
int ProtocolChoice::ChooserOf(const CallSignature& call) const {
  if (call.kind == CollectiveKind::kReduce) return call.root;
  return call.kind == CollectiveKind::kBroadcast ? (call.root + 1) % context_.size() : 0;
}

// The first candidate is kStaged. The second is kSingleCopy for what is only copied and for a
// reduce of more than two ranks, else kStagedStreaming. Ranks that share cores do not use
// kSingleCopy, because part of what they fetch from slots is in the cache of the core that wrote
// it.
SharedProtocolKind ProtocolChoice::Choose(const Operands& operands, const CallSignature& call) {
  is_timed_ = false;
  if (forced_ && *forced_ != SharedProtocolKind::kSmall) return *forced_;
  const std::size_t element = reduce::SizeOf(operands.type);
  SharedProtocolKind second = SharedProtocolKind::kSingleCopy;
  std::size_t bytes = operands.elements * element;
  std::size_t least = kSingleCopyFrom;
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      bytes = LongestPart(operands, context_.size(), kSlotBytes).count * element;
      break;
    case CollectiveKind::kBroadcast:
      break;
    case CollectiveKind::kReduce:
      if (context_.size() == 2) second = SharedProtocolKind::kStagedStreaming;
      least = kStreamingFrom;
      break;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      second = SharedProtocolKind::kStagedStreaming;
      least = kStreamingFrom;
      break;
    default:
      return SharedProtocolKind::kStaged;
  }
  if (bytes < least) return SharedProtocolKind::kStaged;
  if (!context_.group().has_cores()) second = SharedProtocolKind::kStagedStreaming;
  if (context_.rank() != ChooserOf(call)) return SharedProtocolKind::kStaged;  // not used
  const std::size_t call_class = static_cast<std::size_t>(call.kind) * kSizeClasses +
                                 static_cast<std::size_t>(std::bit_width(bytes));
  const OnlineTuner::Candidate next = times_.Next(call_class);
  is_timed_ = times_.IsTimed();
  return next == OnlineTuner::Candidate::kFirst ? SharedProtocolKind::kStaged : second;
}

// All ranks read the same published descriptions and therefore decide alike. Single-copy falls back
// to streaming slots if a rank cannot access its peers' memory.
SharedProtocolKind ProtocolChoice::ProtocolOfAll(const CallSignature& call) const {
  const SharedProtocolKind protocol = context_.call_of(ChooserOf(call)).protocol;
  if (protocol != SharedProtocolKind::kSingleCopy) return protocol;
  const bool writes =
      call.kind == CollectiveKind::kBroadcast || call.kind == CollectiveKind::kReduce;
  for (int peer = 0; peer < context_.size(); ++peer) {
    const SharedCall& theirs = context_.call_of(peer);
    if (theirs.reads_all == 0 || theirs.readable == nullptr || (writes && theirs.writes_all == 0)) {
      return SharedProtocolKind::kStagedStreaming;
    }
  }
  const bool can =
      writes || call.kind == CollectiveKind::kAllGather || call.kind == CollectiveKind::kAllToAll;
  return can ? protocol : SharedProtocolKind::kStaged;
}

}  // namespace espalier::runtime
