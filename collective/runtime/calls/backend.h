#pragma once

#include <cstddef>

#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/operands.h"
#include "collective/transport/base/wait_limit.h"
#include "common/base/result.h"

namespace espalier::runtime {

// How a group of ranks does its collectives. Calls have been checked; all ranks make the same ones,
// and where they do not, every rank is told. After an error the backend is of no more use.
// Thread safety: one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<void> Run(const Operands& operands, const CallSignature& call,
                           const transport::WaitLimit& patience) = 0;
  // Whether all is well with the group, without waiting.
  virtual Result<void> Check() = 0;
  // Tells all ranks that this one gives up, and why.
  virtual void Abort(const Error& cause) = 0;
  // Memory that peers can read and write in place, where there is such; page-aligned, zero. For as
  // long as the backend or until Release.
  // Errors: kUnsupported, kUnavailable.
  virtual Result<std::byte*> Allocate(std::size_t bytes) = 0;
  // kNotFound for what Allocate did not give.
  virtual Result<void> Release(std::byte* memory) = 0;
};

}  // namespace espalier::runtime
