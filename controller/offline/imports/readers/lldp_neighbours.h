#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads what `lldpcli -f json0 show neighbors details` prints on a switch or a host. The output
// does not name the device itself: it is "local-chassis" (of `show chassis`) if the file has that,
// and the name of the file otherwise. An interface with several neighbours is behind a bridge and
// is left out.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadLldpNeighbours(std::string_view text, std::string_view file);

}  // namespace espalier::imports
