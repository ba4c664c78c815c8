#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/operations/action.h"

namespace espalier::controller {

// At most this many windows exist at a time: every link looks at each of them.
constexpr std::size_t kMaxWindows = 256;

// Returns the intents with another maintenance window, which begins at `from` and ends at the
// request's end. One whose beginning has come begins at once, and so does any in a dry run, whose
// outcome shows what its beginning will do. With `force`, the window begins even if that cuts off
// flows.
// Errors: kNotFound (no such link or node), kInvalidArgument (another kind; no end, or an end that
// is past or not after the beginning), kAlreadyExists (the same window exists), kResourceExhausted
// (kMaxWindows).
Result<Intents> AddWindow(const Intents& intents, const fabric::Topology& topology,
                          const std::string& kind, const std::string& id, WallTime from,
                          const OperatorRequest& request, WallTime now);
// Begins a window: what it covers is drained. Errors: kNotFound, kAlreadyExists (it has begun).
Result<Intents> BeginWindow(const Intents& intents, const std::string& window);
// Removes a window; what it covers returns, unless something else keeps it out of use.
// Errors: kNotFound.
Result<Intents> CancelWindow(const Intents& intents, const std::string& window);

}  // namespace espalier::controller
