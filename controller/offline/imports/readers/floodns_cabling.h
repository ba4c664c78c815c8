#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads a topology.properties of the simulator floodns (offline/files/floodns_topology.h).
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadFloodnsCabling(std::string_view text, std::string_view file);

}  // namespace espalier::imports
