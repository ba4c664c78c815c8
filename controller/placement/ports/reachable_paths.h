#pragma once

#include <cstdint>
#include <span>

#include "controller/state/flows/flow_decisions.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Paths of flows where ports take some of the fabric's paths only
// (controller/paths/models/path_reach.h). Assignments know nothing of that: they treat all paths
// between two leaves alike. Thread safety: the controller's loop thread.

// Whether no port of the flow takes this path. O(known ports + paths).
bool IsUnreachable(const State& state, const Flow& flow, std::int32_t path);

// Gives a subflow the usable path that ports take and whose most loaded link has the least load;
// among equals, the one whose second most loaded link has, and so on. So the leaves' links stay
// even although fewer links above them can be reached. It keeps its path if that is such a path and
// no other is better, and if there is none. Returns whether it has moved. O(paths x known ports).
bool MoveToReachablePath(const State& state, FlowDecisions& decisions, FlowSlot slot,
                         std::uint32_t index);

// Whether one of these moves leads to a path that no port of its flow takes.
bool HasUnreachablePath(const State& state, std::span<const FlowPaths::Move> moves);

}  // namespace espalier::controller
