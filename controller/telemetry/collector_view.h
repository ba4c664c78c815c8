#pragma once

#include <cstddef>
#include <string>

#include "common/files/json_writer.h"
#include "controller/telemetry/collector.h"

namespace espalier::telemetry {

// Parts of the answers of the daemon's HTTP interface, as JSON.

// The member "exporters": which switches are heard, what was lost, and which of their ports are not
// mapped to links.
void WriteExporters(io::JsonWriter& json, const Collector& collector, TimePoint now);
// An object: the fastest flows of which packets were sampled, with the links that carried them.
std::string ShowFlows(const Collector& collector, std::size_t most, TimePoint now);

}  // namespace espalier::telemetry
