#pragma once

#include <string_view>

#include "common/base/result.h"

namespace espalier::controller {

// Keeps the topology that an operator applies. The daemon implements it (controller/daemon).
class TopologyKeeper {
 public:
  virtual ~TopologyKeeper() = default;
  // Whether a topology was prepared that is not abandoned: until the daemon has started again with
  // it, no other can be applied, as it would be lost or would replace one that nobody has seen.
  virtual bool has_prepared() const = 0;
  // Makes the text of a topology file durable without putting it in force. Errors: the disk's.
  virtual Result<void> Prepare(std::string_view text) = 0;
  // Forgets the prepared topology, as it was refused.
  virtual void Abandon() = 0;
  // Puts the prepared topology in force for the next start, which the daemon then causes.
  // Errors: the disk's; the prepared topology is abandoned then.
  virtual Result<void> Commit() = 0;
};

}  // namespace espalier::controller
