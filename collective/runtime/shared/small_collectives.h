#pragma once

#include "collective/runtime/shared/area/shared_context.h"
#include "collective/runtime/shared/shared_protocol.h"

namespace espalier::runtime {

// Runs small allreduces in one step: each rank writes its vector and a flag, then reduces the
// vectors of all ranks itself. Call Place before the context's Arrive and Fetch after it.
class SmallCollectives : public SharedProtocol {
 public:
  explicit SmallCollectives(SharedContext& context) : context_(context) {}

  // Copies this rank's input, at most kMaxSmallBytes, to where the other ranks read it.
  void Place(const Operands& operands);
  // Prefetches the data of the other ranks, so that it arrives together with their flags.
  void Fetch(const Operands& operands) const;
  Result<void> Run(const Operands& operands, const CallSignature& call) override;

 private:
  SharedContext& context_;
};

}  // namespace espalier::runtime
