#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/store/store.h"

namespace espalier::controller {

// The contents of the JSON file of version 0.1: the epoch, and reasons by id.
struct LegacyIntents {
  std::uint64_t epoch = 0;
  Intents intents;
};

// Errors: kInvalidArgument "FILE:LINE:COL: ..." for any other file.
Result<LegacyIntents> ParseLegacyIntents(std::string_view text, const std::string& path);

}  // namespace espalier::controller
