#include "collective/runtime/shared/protocol_choice.h"

#include <bit>
#include <cstdint>

#include "collective/runtime/shared/pieces.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

// Where ranks share cores a call is timed to its end on all of them, which costs a meeting.
constexpr std::uint32_t kTimeEvery = 8;
// Calls are told apart by their kind and the number of bits of their length.
constexpr std::size_t kSizeClasses = 65;
constexpr std::size_t kCallClasses =
    (static_cast<std::size_t>(CollectiveKind::kCustom) + 1) * kSizeClasses;
// Parts from here on are read where they are: below, to ask the kernel costs more than a copy.
constexpr std::size_t kReadFrom = 32 << 10;
constexpr std::size_t kStreamSlotsFrom = 256 << 10;

}  // namespace

ProtocolChoice::ProtocolChoice(const SharedContext& context, const Costs& costs,
                               std::optional<SharedProtocolKind> way)
    : context_(context),
      costs_(costs),
      way_(way),
      times_(kCallClasses, context.group().has_cores() ? 1 : kTimeEvery) {}

bool ProtocolChoice::IsSmall(const Operands& operands, const CallSignature& call) const {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  if (call.kind != CollectiveKind::kAllReduce || bytes > kMaxSmallBytes) return false;
  if (way_) return *way_ == SharedProtocolKind::kSmall;
  if (bytes <= kSmallestBytes) return true;  // two meetings less
  const int size = context_.size();
  return Predict(costs_, SharedWork(SharedProtocolKind::kSmall, size, bytes, costs_.lanes)) <=
         Predict(costs_, SharedWork(SharedProtocolKind::kStaged, size, bytes, costs_.lanes));
}

// Of a broadcast it is one that reads.
int ProtocolChoice::ChooserOf(const CallSignature& call) const {
  if (call.kind == CollectiveKind::kReduce) return call.root;
  return call.kind == CollectiveKind::kBroadcast ? (call.root + 1) % context_.size() : 0;
}

// What is faster of two ways. Ranks that share cores do not read: part of what they fetch through
// slots is in the cache of the core where it was written.
SharedProtocolKind ProtocolChoice::Choose(const Operands& operands, const CallSignature& call) {
  is_timed_ = false;
  if (way_ && *way_ != SharedProtocolKind::kSmall) return *way_;
  const std::size_t element = reduce::SizeOf(operands.type);
  SharedProtocolKind second = SharedProtocolKind::kSingleCopy;
  std::size_t bytes = operands.elements * element;
  std::size_t least = kReadFrom;
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      bytes = LongestPart(operands, context_.size(), kSlotBytes).count * element;
      break;
    case CollectiveKind::kBroadcast:
      break;
    case CollectiveKind::kReduce:
      if (context_.size() == 2) second = SharedProtocolKind::kStagedStreaming;
      least = kStreamSlotsFrom;
      break;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      second = SharedProtocolKind::kStagedStreaming;
      least = kStreamSlotsFrom;
      break;
    default:
      return SharedProtocolKind::kStaged;
  }
  if (bytes < least) return SharedProtocolKind::kStaged;
  if (!context_.group().has_cores()) second = SharedProtocolKind::kStagedStreaming;
  if (context_.rank() != ChooserOf(call)) return SharedProtocolKind::kStaged;  // nobody asks
  const std::size_t call_class = static_cast<std::size_t>(call.kind) * kSizeClasses +
                                 static_cast<std::size_t>(std::bit_width(bytes));
  const OnlineTuner::Candidate next = times_.Next(call_class);
  is_timed_ = times_.IsTimed();
  return next == OnlineTuner::Candidate::kFirst ? SharedProtocolKind::kStaged : second;
}

// All ranks see the same lines, so that they decide alike.
SharedProtocolKind ProtocolChoice::ProtocolOfAll(const CallSignature& call) const {
  const SharedProtocolKind way = context_.call_of(ChooserOf(call)).way;
  if (way != SharedProtocolKind::kSingleCopy) return way;
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
  return can ? way : SharedProtocolKind::kStaged;
}

}  // namespace espalier::runtime
