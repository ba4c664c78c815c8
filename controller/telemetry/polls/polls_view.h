#pragma once

#include "common/files/json_writer.h"
#include "controller/telemetry/polls/polled_switches.h"

namespace espalier::telemetry {

// The member "polls" of the answer to /exporters: which sources answer, and which of their ports
// stand for no link.
void WritePolls(io::JsonWriter& json, const PolledSwitches& switches, TimePoint now);

}  // namespace espalier::telemetry
