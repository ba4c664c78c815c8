#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "proto/messages.h"

namespace espalier::agent {

// How an agent makes a flow take a path: the encoding of the path (UDP source port, flow label,
// ...) is this seam's business.
// Thread safety: the agent's loop thread. Never blocks; a program's send never waits for it.
class FlowActuator {
 public:
  virtual ~FlowActuator() = default;
  // The flow takes these paths from its next message on (at once where the reason is kPathDead).
  // Errors: kNotFound for a flow that has ended, kUnsupported where the device cannot.
  virtual Result<void> Apply(const wire::PathSet& paths) = 0;
  // The flow goes back to the port that it would have had without us (plain ECMP).
  virtual Result<void> Clear(wire::LocalFlowId flow) = 0;
};

}  // namespace espalier::agent
