#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// Takes link loads that a telemetry feed measured, and answers {"taken": N} with the number of
// directed links:
//   {"source": "gnmi", "max_age_seconds": 5, "loads": [{"link": "leaf0--spine1>spine1",
//   "bps": 40000000000}, ...]}
// A link without ">NODE" stands for both of its directions. `only_background` (default false) says
// that steered flows are not counted. `max_age_seconds` defaults to 10. The report is taken as a
// whole, or not at all.
//
// Instead of loads it can tell, as pairs of NICs, what senders spread over all paths, which is
// background on the links of these paths (SpreadOverPaths):
//   {"source": "sprayers", "sprayed": [{"source": "h0", "destination": "h4", "bps": 1e10}, ...]}
// Errors: kInvalidArgument, with line and column or the link; kNotFound for an unknown link or NIC.
Result<std::string> HandleLinkLoads(Controller& controller, std::string_view body);

}  // namespace espalier::controller
