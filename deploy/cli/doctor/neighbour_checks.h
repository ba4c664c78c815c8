#pragma once

#include "common/files/json.h"
#include "deploy/cli/doctor/finding.h"
#include "deploy/cli/doctor/host_view.h"

namespace espalier::doctor {

// The switch and the port at the other end of each cable, and the rate of the interface, as LLDP
// hears them (`lldpcli` of lldpd). Skipped for an interface of RoCE that hears none.
void CheckNeighbours(const HostView& view, Findings& findings);

// Compares the switches that the interfaces of RoCE hear with those to which the controller's
// topology (GET /api/v1/topology) links the NICs of their addresses.
void CheckCabling(const HostView& view, const io::JsonValue& topology, Findings& findings);

}  // namespace espalier::doctor
