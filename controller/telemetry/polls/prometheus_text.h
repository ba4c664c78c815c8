#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/telemetry/polls/port_readings.h"

namespace espalier::telemetry {

// Reads the state and counters of ports from Prometheus text (format 0.0.4), by the metrics of
// node_exporter (Linux, Cumulus, SONiC), of Cumulus' own exporter, and of snmp_exporter (IF-MIB). A
// port is the value of the label `device`, `interface` or `ifName`. An interface that node_exporter
// gives no carrier for, and that is not up, is administratively down.
// Errors: none; all other text is skipped. Pure. Complexity: O(bytes log ports).
Result<PortReadings> ReadPrometheusText(std::string_view text, const IsKnownPort& is_known);

}  // namespace espalier::telemetry
