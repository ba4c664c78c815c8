#pragma once

#include <string_view>

#include "common/base/result.h"

namespace espalier::controller {

// Keeps the topology that an operator applies. The daemon implements it (controller/daemon).
class TopologyKeeper {
 public:
  virtual ~TopologyKeeper() = default;
  // Makes the text of a topology file durable without putting it in force. Errors: the disk's.
  virtual Result<void> Prepare(std::string_view text) = 0;
  // Puts the prepared topology in force for the next start, which the daemon then causes.
  // Errors: the disk's.
  virtual Result<void> Commit() = 0;
};

}  // namespace espalier::controller
