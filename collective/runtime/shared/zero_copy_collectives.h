#pragma once

#include <cstddef>
#include <vector>

#include "collective/runtime/shared/shared_context.h"
#include "collective/runtime/shared/shared_protocol.h"

namespace espalier::runtime {

// Calls between registered buffers, which all ranks have mapped: each rank reads its peers' inputs
// where they are, and writes what it has reduced to all outputs that have it. Memory sees each
// input and each output once, with no copies on the way. Between SharedGroup::Reach and Withdraw.
class ZeroCopyCollectives : public SharedProtocol {
 public:
  explicit ZeroCopyCollectives(SharedContext& context)
      : context_(context), rank_(context.rank()), size_(context.size()) {}

  // Whether all buffers of the call under way that peers need are registered, once all ranks have
  // arrived. Ranks see the same, so that they decide alike.
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
