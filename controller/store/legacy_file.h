#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/store/store.h"

namespace espalier::controller {

// What version 0.1 kept in a JSON file: the epoch, and reasons by id.
struct LegacyIntents {
  std::uint64_t epoch = 0;
  Intents intents;
};

// Errors: kInvalidArgument "FILE:LINE:COL: ..." for what is not such a file.
Result<LegacyIntents> ParseLegacyIntents(std::string_view text, const std::string& path);

}  // namespace espalier::controller
