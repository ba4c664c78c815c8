#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective/reduce/reduce.h"
#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/operands.h"
#include "collective/runtime/shared/peer_memory.h"
#include "collective/runtime/shared/registered_memory.h"
#include "collective/runtime/shared/shared_area.h"
#include "collective/transport/base/wait_limit.h"
#include "collective/transport/shm/shared_group.h"
#include "common/base/result.h"

namespace espalier::runtime {

// What all protocols over shared memory work on: the group, the areas of its ranks, the memory of
// other ranks that this one can reach, and the call under way.
// Thread safety: one thread at a time.
class SharedContext {
 public:
  // The group has sizeof(RankArea) bytes for each rank.
  explicit SharedContext(std::unique_ptr<transport::SharedGroup> group);
  SharedContext(const SharedContext&) = delete;
  SharedContext& operator=(const SharedContext&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  transport::SharedGroup& group() const { return *group_; }
  RegisteredMemory& registered() { return registered_; }
  // Knows the other ranks once all have entered the first call.
  const PeerMemory& memories() const { return memories_; }
  // The second-level cache of rank 0's core in bytes, the same number on all ranks, once all have
  // entered the first call.
  std::size_t level2_bytes() const { return level2_bytes_; }

  RankArea& area(int rank) const { return areas_[rank]; }
  // What a rank says of the call under way.
  SharedCall& call_of(int rank) const { return area(rank).calls[calls_ % 2]; }
  std::byte* slot(int rank, std::size_t piece) const {
    return area(rank).slots + piece % 2 * kSlotBytes;
  }
  std::byte* result_slot(int rank, std::size_t piece) const {
    return area(rank).results[piece % 2];
  }

  // The call under way begins: call_of(rank()) may be written, until Arrive.
  void Begin(const Operands& operands, const CallSignature& call,
             const transport::WaitLimit& patience);
  // Shows the others what this rank says of the call.
  void Arrive() { call_of(rank_).arrived.Set(calls_); }
  // Waits until all ranks have arrived.
  // Errors: those of AwaitPeer; kFailedPrecondition for a rank that makes another call.
  Result<void> AwaitArrivals();
  // Waits until a counter that a peer writes has come to `value`.
  // Errors: those of SharedGroup::Await, with the ranks and the call; kUnavailable when the call's
  // patience is over.
  Result<void> AwaitPeer(transport::Counter& counter, std::uint32_t value, int peer);
  // A barrier. Errors: those of AwaitPeer.
  Result<void> Meet();

  const CallSignature& call() const { return call_; }
  const reduce::Reduction& reduction() const { return reduction_; }
  // Room for one address for each rank, for whoever reduces.
  std::vector<const std::byte*>& inputs() { return inputs_; }
  // For outputs that have a part of so many bytes from each rank.
  reduce::Stores CopyStores(std::size_t part_bytes) const;

 private:
  void ExchangeMemoryOwners();

  std::unique_ptr<transport::SharedGroup> group_;
  RankArea* const areas_;  // of all ranks
  RegisteredMemory registered_;
  PeerMemory memories_;
  int rank_;
  int size_;
  std::size_t level2_bytes_ = 0;
  std::uint32_t calls_ = 0;  // begun
  std::uint32_t meetings_ = 0;
  transport::WaitLimit patience_{transport::Deadline()};
  CallSignature call_;
  reduce::Reduction reduction_;
  std::vector<const std::byte*> inputs_;
};

}  // namespace espalier::runtime
