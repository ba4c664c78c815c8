#pragma once

#include <span>

#include "common/base/result.h"

namespace espalier::io {

// Drops all capabilities of the process except these (CAP_..., if it has them), permanently, and
// the ability to gain others by running programs. Call it before other threads start, as each
// thread has its own capabilities.
// Errors: those of the system.
Result<void> KeepOnlyCapabilities(std::span<const int> kept);

}  // namespace espalier::io
