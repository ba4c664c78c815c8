#pragma once

#include <cstddef>

#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/operands.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/base/wait_limit.h"
#include "common/base/result.h"

namespace espalier::runtime {

// Runs the collectives of a group over one kind of transport. Callers have checked the operands.
// If ranks make different calls, every rank gets an error. After an error the backend must not be
// used again. Thread safety: one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<void> Run(const Operands& operands, const CallSignature& call,
                           const transport::WaitLimit& limit) = 0;
  // Enters a call whose data goes over Messages(). If ranks make different calls, this or their
  // waits for messages give an error.
  virtual Result<void> Enter(const CallSignature& call, const transport::WaitLimit& limit) = 0;
  // The transport of messages between two ranks, with kMessageChannels channels that nothing else
  // uses, from `channel` on. It lives as long as the backend.
  struct MessagePath {
    transport::Transport& transport;
    int channel = 0;
  };
  static constexpr int kMessageChannels = 2;
  virtual MessagePath Messages() = 0;
  // Reports a failure of the group that is already known, without waiting.
  virtual Result<void> Check() = 0;
  // Tells all ranks that this one gives up, with the cause.
  virtual void Abort(const Error& cause) = 0;
  // Allocates memory that peers can read and write in place; page-aligned, zeroed. It lives until
  // Release or the end of the backend. Errors: kUnsupported, kUnavailable.
  virtual Result<std::byte*> Allocate(std::size_t bytes) = 0;
  // Errors: kNotFound for memory that is not from Allocate.
  virtual Result<void> Release(std::byte* memory) = 0;
};

}  // namespace espalier::runtime
