#pragma once

#include <string>

#include "common/files/json.h"

namespace espalier::cli {

// Returns the value of an operator's intent as people read it. The controller's API has it as its
// store keeps it: "2026-11-21T18:00:00.000Z link waiting checked leaf0--spine1" of a maintenance
// window becomes "drain link leaf0--spine1 from 2026-11-21T18:00:00.000Z". What is no such record
// stays as it is.
std::string IntentWords(const io::JsonValue& intent);

}  // namespace espalier::cli
