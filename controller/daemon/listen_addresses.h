#pragma once

#include <string>

#include "common/base/result.h"
#include "controller/daemon/configuration.h"

namespace espalier::controller {

// Checks the addresses on which a controller with this configuration listens, `listen` and `http`:
// their form, and that this machine has them. Whether a port is free only the start can tell, as a
// running controller holds it. `file` is where the configuration stands. Errors: kInvalidArgument,
// with the file, the field and the remedy.
Result<void> CheckListenAddresses(const Configuration& config, const std::string& file);

}  // namespace espalier::controller
