#pragma once

#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/operands.h"
#include "common/base/result.h"

namespace espalier::runtime {

// A protocol that moves and reduces the data of a call between ranks that share memory.
// Thread safety: one thread at a time.
class SharedProtocol {
 public:
  virtual ~SharedProtocol() = default;
  // Does this rank's part of a call. All ranks have entered the call and use this protocol.
  // Errors: those of SharedContext::AwaitPeer, and those of access to a peer's memory.
  virtual Result<void> Run(const Operands& operands, const CallSignature& call) = 0;
};

}  // namespace espalier::runtime
