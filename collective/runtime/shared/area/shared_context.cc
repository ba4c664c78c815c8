#include "collective/runtime/shared/area/shared_context.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

namespace espalier::runtime {
namespace {

using reduce::Stores;

// Copies of at least this size use streaming stores; smaller ones stay in the shared cache.
constexpr std::size_t kStreamCopiesFrom = 16 << 20;

std::size_t Level2Bytes() {
  constexpr std::size_t kUsual = 1 << 20;
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kUsual;
}

}  // namespace

SharedContext::SharedContext(std::unique_ptr<transport::SharedGroup> group)
    : group_(std::move(group)),
      areas_(reinterpret_cast<RankArea*>(group_->memory())),
      rank_(group_->rank()),
      size_(group_->size()),
      inputs_(static_cast<std::size_t>(size_)) {
  area(rank_).owner = memories_.owner();
  area(rank_).level2_bytes = Level2Bytes();
}

void SharedContext::Begin(const Operands& operands, const CallSignature& call,
                          const transport::WaitLimit& limit) {
  limit_ = limit;
  call_ = call;
  reduction_ = {.type = operands.type,
                .op = operands.op,
                .divisor = operands.op == reduce::ReduceOp::kAvg ? size_ : 1};
  ++calls_;
}

// A rank has two descriptions, by the parity of the call. When this rank has seen all others arrive
// in the next call, they have read its description of this one, so it may be overwritten.
Result<void> SharedContext::AwaitArrivals() {
  const SharedCall& mine = call_of(rank_);
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    SharedCall& theirs = call_of(peer);
    auto arrived = AwaitPeer(theirs.arrived, calls_, peer);
    if (!arrived) return arrived;
    if (theirs.tag != mine.tag) {
      return tl::unexpected(MismatchError(peer, FromTag(theirs.tag), rank_, call_));
    }
  }
  if (calls_ == 1) ExchangeMemoryOwners();
  return {};
}

void SharedContext::ExchangeMemoryOwners() {
  std::vector<MemoryOwner> owners;
  for (int peer = 0; peer < size_; ++peer) owners.push_back(area(peer).owner);
  memories_.Meet(std::move(owners));
  level2_bytes_ = area(0).level2_bytes;
}

Result<void> SharedContext::AwaitPeer(transport::Counter& counter, std::uint32_t value, int peer) {
  while (true) {
    const std::uint32_t seen = counter.value.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - value) >= 0) return {};
    if (group_->Spin(counter, seen)) continue;
    auto changed = transport::WaitInterruptibly(
        limit_, [&](transport::Deadline nap) { return group_->Await(counter, seen, nap); });
    if (changed) continue;
    return Fail(changed.error().code,
                fmt::format("{} (rank {} waited for rank {} in {})", changed.error().message, rank_,
                            peer, Describe(call_)));
  }
}

// Each rank advances its own counter and waits until all others have reached the same value.
// Counters only grow, so a barrier needs no reset and cannot be confused with the next one. Cost:
// one cache line written and size - 1 lines read by each rank, in one step.
Result<void> SharedContext::Barrier() {
  area(rank_).barrier.Set(++barriers_);
  for (int peer = 0; peer < size_; ++peer) {
    auto barrier = AwaitPeer(area(peer).barrier, barriers_, peer);
    if (!barrier) return barrier;
  }
  return {};
}

Stores SharedContext::CopyStores(std::size_t part_bytes) const {
  const auto ranks = static_cast<std::size_t>(group_->ranks_per_core());
  return part_bytes * inputs_.size() * ranks >= kStreamCopiesFrom ? Stores::kStreaming
                                                                  : Stores::kCached;
}

}  // namespace espalier::runtime
