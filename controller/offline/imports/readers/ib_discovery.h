#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads what `ibnetdiscover` prints, or `ibnetdiscover -p`. A switch has the name of its
// description; a channel adapter described as "HOST DEVICE" is the port DEVICE of the host HOST.
// Descriptions that several nodes have are replaced by the GUID. Rates are width times lane rate.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadIbDiscovery(std::string_view text, std::string_view file);

}  // namespace espalier::imports
