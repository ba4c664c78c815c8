#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/telemetry/polls/port_readings.h"

namespace espalier::telemetry {

// Readers of ports in JSON. Pure. Errors: kInvalidArgument with line and column.

// The answer of FRR to `show interface json`: an object with one for each interface, of which
// `administrativeStatus`, `operationalStatus` and `speed` (Mbit/s) count. An interface that is
// administratively down has no `operationalStatus`.
Result<PortReadings> ReadFrrJson(std::string_view text, const IsKnownPort& is_known);

// The form of our own (docs/formats.md, Ports of a switch). Unknown fields are refused.
Result<PortReadings> ReadPortsJson(std::string_view text, const IsKnownPort& is_known);

}  // namespace espalier::telemetry
