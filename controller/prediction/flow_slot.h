#pragma once

#include <cstdint>

#include "common/base/strong_id.h"

namespace espalier::controller {

// A flow's place in the controller's table of flows: dense, and reused after the flow is gone.
using FlowSlot = StrongId<struct FlowTag, std::uint32_t>;

}  // namespace espalier::controller
