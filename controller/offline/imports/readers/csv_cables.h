#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads a table of cables with commas. Its first line names the columns, in any order: a_device,
// a_port, b_device and b_port are required; gbps, a_address, b_address, a_kind and b_kind ("switch"
// or "host") are not, and their fields may be empty.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadCsvCables(std::string_view text, std::string_view file);

}  // namespace espalier::imports
