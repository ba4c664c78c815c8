#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// Takes the flows of which switches sampled packets, from espalier-telemetry or another collector,
// and answers {"taken": N} with their number:
//   {"source": "sflow", "window_seconds": 5, "flows": [{"source": "10.0.0.1", "destination":
//   "10.2.0.1", "protocol": 17, "source_port": 50000, "destination_port": 4791, "queue_pair": 17,
//   "bps": 40000000000, "error": 0.1, "links": [{"link": "leaf0--spine1>spine1", "samples": 57}]}]}
// The report is taken as a whole, or not at all.
// Errors: kInvalidArgument, with line and column; kNotFound for a direction of no link; those of
// Sightings::HandleReport.
Result<std::string> HandleSightingReport(Controller& controller, std::string_view body);

}  // namespace espalier::controller
