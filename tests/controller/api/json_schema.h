#pragma once

#include <string>

#include "common/files/json.h"

namespace espalier::controller {

// Checks a value against a schema of an OpenAPI description: type, enum, properties, required,
// additionalProperties (false), items, minimum (0 or more, or -1), $ref into the description.
// Returns "" if it matches, else the first place that does not, and why.
std::string Violation(const io::JsonValue& description, const io::JsonValue& schema,
                      const io::JsonValue& value, const std::string& place);

// Follows a "$ref" of the description; returns any other value itself.
const io::JsonValue& Resolve(const io::JsonValue& description, const io::JsonValue& value);

}  // namespace espalier::controller
