#pragma once

#include "deploy/cli/doctor/finding.h"
#include "deploy/cli/doctor/host_view.h"

namespace espalier::doctor {

// The release of the kernel, against the oldest on which Espalier is tested.
void CheckKernel(const HostView& view, Findings& findings);
// Whether the clock is synchronised.
void CheckClock(const HostView& view, Findings& findings);
// Whether all packages of Espalier have one version.
void CheckVersions(const HostView& view, Findings& findings);
// Whether a program may pin the memory that RDMA needs.
void CheckMemoryLimit(const HostView& view, Findings& findings);
// The agent's key and the controller's public keys, in /etc/espalier/keys.
void CheckAgentKeys(const HostView& view, Findings& findings);
// Whether the agent runs and hears its controller.
void CheckAgent(const HostView& view, Findings& findings);
// Which part of the agent's probes is answered, which limits of ICMP errors in switches lower.
void CheckProbeAnswers(const HostView& view, Findings& findings);
// Queue pairs of programs that Espalier does not see.
void CheckUnobserved(const HostView& view, Findings& findings);

// Whether this machine is meant to have an agent: it has a configuration of one.
bool HasAgentConfiguration(const HostView& view);

}  // namespace espalier::doctor
