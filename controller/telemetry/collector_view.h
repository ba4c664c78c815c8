#pragma once

#include <cstddef>
#include <string>

#include "common/files/json.h"
#include "controller/telemetry/collector.h"

namespace espalier::telemetry {

// The answers of the daemon's HTTP interface, as JSON objects.

// The switches: which are heard, what was lost, and which of their ports are not mapped to links.
std::string ShowExporters(const Collector& collector, TimePoint now);
// The member "exporters" of that object.
void WriteExporters(io::JsonWriter& json, const Collector& collector, TimePoint now);
// The fastest flows of which packets were sampled, with the links that carried them.
std::string ShowFlows(const Collector& collector, std::size_t most, TimePoint now);

}  // namespace espalier::telemetry
