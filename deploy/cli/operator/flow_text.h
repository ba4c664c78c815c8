#pragma once

#include <string>

#include "common/files/json.h"

namespace espalier::cli {

// Describes a flow of the controller's answers for people: its fields, a line each, and in
// sentences what its paths, its other end and its transport mean for it. Fields that an older
// controller does not send are left out.
std::string FlowText(const io::JsonValue& flow);

}  // namespace espalier::cli
