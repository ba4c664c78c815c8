#include "collective/runtime/shared/small_collectives.h"

#include <algorithm>

#include "collective/reduce/reduce.h"

namespace espalier::runtime {
namespace {

// The most bytes of each peer that are prefetched.
constexpr std::size_t kMaxFetched = 16 * kLine;

std::size_t BytesOf(const Operands& operands) {
  return operands.elements * reduce::SizeOf(operands.type);
}

}  // namespace

void SmallCollectives::Place(const Operands& operands) {
  const std::size_t bytes = BytesOf(operands);
  reduce::Copy(operands.input, context_.call_of(context_.rank()).PlaceFor(bytes), bytes);
}

void SmallCollectives::Fetch(const Operands& operands) const {
  transport::WaitOneCacheLineTransfer();
  const std::size_t bytes = BytesOf(operands);
  if (bytes <= kSmallestBytes) return;
  for (int step = 1; step < context_.size(); ++step) {
    const SharedCall& theirs = context_.call_of((context_.rank() + step) % context_.size());
    for (std::size_t at = 0; at < std::min(bytes, kMaxFetched); at += kLine) {
      __builtin_prefetch(theirs.small + at);
    }
  }
}

Result<void> SmallCollectives::Run(const Operands& operands, const CallSignature& /*call*/) {
  if (operands.elements == 0) return {};
  const std::size_t bytes = BytesOf(operands);
  auto& inputs = context_.inputs();
  for (int peer = 0; peer < context_.size(); ++peer) {
    inputs[static_cast<std::size_t>(peer)] = context_.call_of(peer).PlaceFor(bytes);
  }
  reduce::Reduce(context_.reduction(), inputs, {&operands.output, 1}, operands.elements);
  return {};
}

}  // namespace espalier::runtime
