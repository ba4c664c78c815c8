#pragma once

#include <cstdint>

#include "common/base/strong_id.h"

namespace espalier::controller {

// A flow's index in the controller's flow table. Slots are dense and are reused after the flow has
// ended.
using FlowSlot = StrongId<struct FlowTag, std::uint32_t>;

}  // namespace espalier::controller
