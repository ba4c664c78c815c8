#pragma once

#include <cstdint>

#include "common/files/json.h"

namespace espalier::cli {

// What an operator's action did, or (dry run) would do, by the controller's answer.

// Flows that the action cuts off, or would cut off: those without a path or on a link that is down,
// beyond those that were so before.
std::int64_t CountNewlyCutOff(const io::JsonValue& answer);
// Prints the flows that move, the intents that change, the forests that are computed again, the
// loads and the flows that are cut off, on standard output.
void PrintOutcome(const io::JsonValue& answer);

}  // namespace espalier::cli
