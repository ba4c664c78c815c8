#pragma once

#include <string>

#include "common/files/json.h"

namespace espalier::controller {

// Whether a value is as a schema of an OpenAPI description says: type, enum, properties, required,
// additionalProperties (false), items, minimum (0 or more, or -1), $ref into the description. Empty
// where it is, else the first place where it is not, and why.
std::string Violation(const io::JsonValue& description, const io::JsonValue& schema,
                      const io::JsonValue& value, const std::string& place);

// What a "$ref" of the description leads to; the value itself where it is none.
const io::JsonValue& Resolve(const io::JsonValue& description, const io::JsonValue& value);

}  // namespace espalier::controller
