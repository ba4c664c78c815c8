#pragma once

#include "deploy/cli/doctor/finding.h"
#include "deploy/cli/doctor/host_view.h"

namespace espalier::doctor {

// Variables of NCCL, in the environment of the view and in /etc/nccl.conf, that take traffic off
// RoCE, name devices that do not exist, or defeat steering. Skipped if there are none.
void CheckNccl(const HostView& view, Findings& findings);
// Whether the library that steers queue pairs is in front of libibverbs in this environment.
void CheckShim(const HostView& view, Findings& findings);

}  // namespace espalier::doctor
