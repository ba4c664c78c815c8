#pragma once

#include "collective/runtime/shared/area/shared_context.h"
#include "collective/runtime/shared/shared_protocol.h"

namespace espalier::runtime {

// Runs calls in which the kernel copies between the ranks' processes (peer_memory.h).
//
// Problem: staging copies everything twice, but private buffers cannot be mapped by peers. Idea: a
// system call copies from a peer's process memory to this one's (cross-memory attach), and the
// ranks divide the copying evenly. In allgather and alltoall each rank reads its peers' parts. In a
// broadcast every other rank reads all but the last of `size` parts, and the root writes that part
// to everyone. In a reduce each rank reads and reduces one share and writes it to the root.
// Invariant: all ranks transfer the same number of bytes; buffers of peers are accessed only
// between arrival and the final barrier of the call. Cost: one copy, for which the kernel maps
// pages, and one barrier. Not for an alltoall in place (an input would change while it is read) or
// for allreduce and reduce_scatter.
//
// Run must be called between SharedGroup::BeginRemoteAccess and EndRemoteAccess.
class SingleCopyCollectives : public SharedProtocol {
 public:
  explicit SingleCopyCollectives(SharedContext& context)
      : context_(context), rank_(context.rank()), size_(context.size()) {}

  // Errors beyond those of SharedProtocol: those of PeerMemory::Read.
  Result<void> Run(const Operands& operands, const CallSignature& call) override;

 private:
  Result<void> CopyParts(const Operands& operands, program::CollectiveKind kind);
  Result<void> Spread(const Operands& operands, int root);
  Result<void> Collect(const Operands& operands, int root);

  SharedContext& context_;
  const int rank_;
  const int size_;
};

}  // namespace espalier::runtime
