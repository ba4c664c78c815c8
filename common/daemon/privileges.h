#pragma once

#include <span>

#include "common/base/result.h"

namespace espalier::io {

// Gives up for good all of the process's capabilities but these (CAP_..., where it has them), and
// the ability to get others by running programs. Call before there are other threads: each has
// capabilities of its own. Where there are none to give up nothing is done.
// Errors: the system's.
Result<void> KeepOnlyCapabilities(std::span<const int> kept);

}  // namespace espalier::io
