#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective/reduce/reduce.h"
#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/operands.h"
#include "collective/runtime/shared/area/peer_memory.h"
#include "collective/runtime/shared/area/registered_memory.h"
#include "collective/runtime/shared/area/shared_area.h"
#include "collective/transport/base/wait_limit.h"
#include "collective/transport/shm/shared_group.h"
#include "common/base/result.h"

namespace espalier::runtime {

// The state that all shared-memory protocols of a rank use: the group, the areas of its ranks,
// access to the memory of other ranks, and the call in progress.
// Thread safety: one thread at a time.
class SharedContext {
 public:
  // The group must have sizeof(RankArea) bytes for each rank.
  explicit SharedContext(std::unique_ptr<transport::SharedGroup> group);
  SharedContext(const SharedContext&) = delete;
  SharedContext& operator=(const SharedContext&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  transport::SharedGroup& group() const { return *group_; }
  RegisteredMemory& registered() { return registered_; }
  // Knows the other ranks after all have entered the first call.
  const PeerMemory& memories() const { return memories_; }
  // The second-level cache of rank 0's core in bytes, equal on all ranks. Valid after all ranks
  // have entered the first call.
  std::size_t level2_bytes() const { return level2_bytes_; }

  RankArea& area(int rank) const { return areas_[rank]; }
  // A rank's description of the call in progress.
  SharedCall& call_of(int rank) const { return area(rank).calls[calls_ % 2]; }
  std::byte* slot(int rank, std::size_t piece) const {
    return area(rank).slots + piece % 2 * kSlotBytes;
  }
  std::byte* result_slot(int rank, std::size_t piece) const {
    return area(rank).results[piece % 2];
  }

  // Begins a call. call_of(rank()) may then be written until Arrive.
  void Begin(const Operands& operands, const CallSignature& call,
             const transport::WaitLimit& limit);
  // Publishes call_of(rank()) to the other ranks.
  void Arrive() { call_of(rank_).arrived.Set(calls_); }
  // Waits until all ranks have arrived.
  // Errors: those of AwaitPeer; kFailedPrecondition if a rank makes another call.
  Result<void> AwaitArrivals();
  // Waits until a counter that a peer writes has reached `value`.
  // Errors: those of SharedGroup::Await, with the ranks and the call; kUnavailable when the call's
  // time limit has passed.
  Result<void> AwaitPeer(transport::Counter& counter, std::uint32_t value, int peer);
  // Waits at a barrier of all ranks. Errors: those of AwaitPeer.
  Result<void> Barrier();

  const CallSignature& call() const { return call_; }
  const reduce::Reduction& reduction() const { return reduction_; }
  // Scratch space of protocols that reduce: one input address for each rank.
  std::vector<const std::byte*>& inputs() { return inputs_; }
  // The kind of stores for outputs that receive `part_bytes` bytes from each rank.
  reduce::Stores CopyStores(std::size_t part_bytes) const;

 private:
  void ExchangeMemoryOwners();

  std::unique_ptr<transport::SharedGroup> group_;
  RankArea* const areas_;  // one for each rank
  RegisteredMemory registered_;
  PeerMemory memories_;
  int rank_;
  int size_;
  std::size_t level2_bytes_ = 0;
  std::uint32_t calls_ = 0;  // begun so far
  std::uint32_t barriers_ = 0;
  transport::WaitLimit limit_{transport::Deadline()};
  CallSignature call_;
  reduce::Reduction reduction_;
  std::vector<const std::byte*> inputs_;
};

}  // namespace espalier::runtime
