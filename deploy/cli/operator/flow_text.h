#pragma once

#include <string>

#include "common/files/json.h"

namespace espalier::cli {

// Describes, in sentences, why a flow of the controller's answers is where it is, and what would
// change that: its state and path with the reason, the cause and remedy of one that waits, its
// rate, and what its paths, its other end and its transport mean for it.
std::string ShortFlowText(const io::JsonValue& flow);

// Describes the same with its fields, a line each, instead of the first sentences. Fields that an
// older controller does not send are left out.
std::string FlowText(const io::JsonValue& flow);

// Describes, in sentences, which way the acknowledgements of a TCP flow come back, by the answer of
// /api/v1/flows/explain; empty for other flows. Where that is bad or unknown and no known source
// port is better, it says what the operator can do.
std::string ReturnText(const io::JsonValue& explanation);

}  // namespace espalier::cli
