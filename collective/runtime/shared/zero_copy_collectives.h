#pragma once

#include <cstddef>
#include <vector>

#include "collective/runtime/shared/area/shared_context.h"
#include "collective/runtime/shared/shared_protocol.h"

namespace espalier::runtime {

// Runs calls between registered buffers, which all ranks map.
//
// Problem: even in the caches, staging costs a copy in, a copy out and a flag per piece. Idea:
// peers map registered buffers, so each rank reads its peers' inputs where they are and writes sums
// to all outputs. The work is divided evenly: a rank reduces one share of all inputs; in a
// broadcast every other rank reads all but the last of `size` parts, and the root writes that part
// to everyone. Invariant: no two ranks write the same bytes of an output, and inputs are read only
// between arrival and the final barrier of the call. Cost: each input is read and each output
// written once, one barrier, no intermediate copy.
//
// Run must be called between SharedGroup::BeginRemoteAccess and EndRemoteAccess.
class ZeroCopyCollectives : public SharedProtocol {
 public:
  explicit ZeroCopyCollectives(SharedContext& context)
      : context_(context), rank_(context.rank()), size_(context.size()) {}

  // Whether all buffers that peers need in the call in progress are registered. Call it after all
  // ranks have arrived; all ranks then get the same answer.
  bool CanServe(const CallSignature& call) const;
  // Errors beyond those of SharedProtocol: those of RegisteredMemory::Reach.
  Result<void> Run(const Operands& operands, const CallSignature& call) override;

 private:
  Result<const std::byte*> MapPeerInput(const Operands& operands, int peer);
  Result<std::byte*> MapPeerOutput(const Operands& operands, int peer);
  Result<void> CopyParts(const Operands& operands, program::CollectiveKind kind);
  Result<void> Spread(const Operands& operands, int root);
  Result<void> Reduce(const Operands& operands, const CallSignature& call);

  SharedContext& context_;
  const int rank_;
  const int size_;
  std::vector<std::byte*> outputs_;
};

}  // namespace espalier::runtime
