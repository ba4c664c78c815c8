#pragma once

#include "deploy/cli/doctor/finding.h"
#include "deploy/cli/doctor/host_view.h"

namespace espalier::doctor {

// Whether the NIC reacts to congestion marks (DCQCN), as NVIDIA's driver shows it in sysfs. Other
// drivers do not say.
void CheckEcn(const HostView& view, Findings& findings);
// Which priorities are lossless (PFC), as `dcb` of iproute2 prints it.
void CheckPfc(const HostView& view, Findings& findings);
// Counters of loss, retransmission, pauses and flaps that grow between two readings.
void CheckCounters(const HostView& view, Findings& findings);

}  // namespace espalier::doctor
