#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/files/json.h"

namespace espalier::imports {

// Parses one YAML document (1.1, by libyaml) of mappings, sequences and scalars. Every scalar is a
// string. At most 64 levels and 8 million values; refused are anchors and aliases, which can make a
// small file a large tree, and keys that are not scalars.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)"; kResourceExhausted for too many values.
Result<io::JsonValue> ParseYaml(std::string_view text, std::string_view file);

}  // namespace espalier::imports
