#pragma once

#include "deploy/cli/doctor/finding.h"
#include "deploy/cli/doctor/host_view.h"

namespace espalier::doctor {

// The switch and the port at the other end of each cable, and the rate of the interface, as LLDP
// hears them (`lldpcli` of lldpd). Skipped for an interface of RoCE that hears none.
void CheckNeighbours(const HostView& view, Findings& findings);

}  // namespace espalier::doctor
