#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "proto/messages.h"

namespace espalier::agent {

// Makes flows take paths. Implementations decide how a path is encoded: as UDP source port, flow
// label, ...
// Thread safety: the agent's loop thread. Never blocks; a program's send never waits for it.
class FlowActuator {
 public:
  virtual ~FlowActuator() = default;
  // Gives the flow these paths from its next message on, or at once if the reason is kPathDead.
  // Errors: kNotFound for a flow that has ended, kUnsupported if the device cannot choose paths.
  virtual Result<void> Apply(const wire::PathSet& paths) = 0;
  // Returns the flow to its own port, that is, to plain ECMP.
  virtual Result<void> Clear(wire::LocalFlowId flow) = 0;
};

}  // namespace espalier::agent
