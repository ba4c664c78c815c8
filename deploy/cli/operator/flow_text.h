#pragma once

#include <string>

#include "common/files/json.h"

namespace espalier::cli {

// Describes a flow of the controller's answers for people: its fields, a line each, and in
// sentences what its paths, its other end and its transport mean for it. Fields that an older
// controller does not send are left out.
std::string FlowText(const io::JsonValue& flow);

// Describes, in sentences, which way the acknowledgements of a TCP flow come back, by the answer of
// /api/v1/flows/explain; empty for other flows. Where that is bad or unknown and no known source
// port is better, it says what the operator can do.
std::string ReturnText(const io::JsonValue& explanation);

}  // namespace espalier::cli
