#pragma once

#include <string>

#include "common/base/event_loop.h"
#include "common/files/json.h"
#include "controller/api/views/shown_flow.h"
#include "controller/controller.h"
#include "controller/sightings/sightings.h"

namespace espalier::controller {

// What switches say of a flow; of the edge of a forest nothing. O(log flows of the agent).
Attestation AttestationOf(const Controller& controller, const ShownFlow& flow);

// Writes the member "attested".
void WriteAttestation(io::JsonWriter& json, const State& state, const Attestation& attestation,
                      TimePoint now);

// The large flows that switches saw and no agent reports: {"flows": [...]}.
std::string UnannouncedView(const Controller& controller);

}  // namespace espalier::controller
