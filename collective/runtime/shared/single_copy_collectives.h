#pragma once

#include "collective/runtime/shared/shared_context.h"
#include "collective/runtime/shared/shared_protocol.h"

namespace espalier::runtime {

// Calls in which each rank has the kernel read its peers' memory where it is (peer_memory.h): one
// copy, for which the kernel maps pages. A broadcast's root and the ranks of a reduce write, too,
// so that all copy as much. Not for an alltoall in place, nor for what all ranks reduce. Between
// SharedGroup::Reach and Withdraw.
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
