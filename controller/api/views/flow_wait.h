#pragma once

#include <string>

#include "controller/api/views/shown_flow.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Why a flow is not steered to a path and port that are known to fit, and what an operator can do
// about it, as sentences without a full stop. Both are empty for a flow that is as it should be.
struct FlowWait {
  std::string cause;
  std::string remedy;
};
// O(log flows + known ports of the flow's key).
FlowWait ExplainWait(const State& state, const ShownFlow& flow);

}  // namespace espalier::controller
