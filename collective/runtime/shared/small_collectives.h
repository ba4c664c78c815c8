#pragma once

#include "collective/runtime/shared/shared_context.h"
#include "collective/runtime/shared/shared_protocol.h"

namespace espalier::runtime {

// Small all-reduces: each rank writes its vector and a flag, and reduces all of them; one step.
// Place comes before the call's Arrive, Fetch after it.
class SmallCollectives : public SharedProtocol {
 public:
  explicit SmallCollectives(SharedContext& context) : context_(context) {}

  // Shows the others this rank's input, at most kMaxSmallBytes.
  void Place(const Operands& operands);
  // Has the others' data come together with the lines of their flags.
  void Fetch(const Operands& operands) const;
  Result<void> Run(const Operands& operands, const CallSignature& call) override;

 private:
  SharedContext& context_;
};

}  // namespace espalier::runtime
