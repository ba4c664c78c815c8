#pragma once

#include <cstdint>

#include "common/base/result.h"

namespace espalier::agent {

// How one queue pair in use gets another source port, whatever its device or its owner can do:
// live_queue_pair.h, or the pool that it is one of.
// Thread safety: the agent's loop thread. Nothing blocks.
class QueuePairPath {
 public:
  virtual ~QueuePairPath() = default;
  // The port that it would have had without us.
  virtual std::uint16_t OwnPort() const = 0;
  // Begins to change the port; Continue says when that is done, and is asked until then.
  // Errors of both: kUnsupported where nothing of the kind can be done, kInvalidArgument for a port
  // that there is not; kUnavailable for a queue pair that has failed. The port is the old one then.
  virtual Result<void> Start(std::uint16_t port) = 0;
  virtual Result<bool> Continue() = 0;
  // 0: no limit. Errors: kUnsupported.
  virtual Result<void> LimitRate(std::uint64_t bits_per_second) = 0;
};

}  // namespace espalier::agent
