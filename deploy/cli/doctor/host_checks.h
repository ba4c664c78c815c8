#pragma once

#include "deploy/cli/doctor/finding.h"
#include "deploy/cli/doctor/host_view.h"

namespace espalier::doctor {

// All checks of a host, in their order. Reads only; makes an idle queue pair on each RDMA device
// for a moment, and waits once between two readings of counters.
void CheckHost(const HostView& view, Findings& findings);

}  // namespace espalier::doctor
