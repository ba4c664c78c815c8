#pragma once

#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/operands.h"
#include "common/base/result.h"

namespace espalier::runtime {

// One way to move and reduce the data of a call between ranks that share memory.
// Thread safety: one thread at a time.
class SharedProtocol {
 public:
  virtual ~SharedProtocol() = default;
  // Does this rank's part of a call that all ranks have entered and that all do in this way.
  // Errors: those of SharedContext::AwaitPeer, and of memory that cannot be reached.
  virtual Result<void> Run(const Operands& operands, const CallSignature& call) = 0;
};

}  // namespace espalier::runtime
