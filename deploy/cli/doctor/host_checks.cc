#include "deploy/cli/doctor/host_checks.h"

#include <array>

#include "deploy/cli/doctor/congestion_checks.h"
#include "deploy/cli/doctor/device_checks.h"
#include "deploy/cli/doctor/machine_checks.h"
#include "deploy/cli/doctor/nccl_checks.h"
#include "deploy/cli/doctor/neighbour_checks.h"

namespace espalier::doctor {
namespace {

struct HostCheck {
  const char* name;
  void (*run)(const HostView& view, Findings& findings);
};
constexpr std::array kHostChecks = {HostCheck{"kernel", CheckKernel},
                                    HostCheck{"device", CheckDevices},
                                    HostCheck{"port", CheckPorts},
                                    HostCheck{"gid", CheckGids},
                                    HostCheck{"mtu", CheckMtu},
                                    HostCheck{"uplinks", CheckUplinks},
                                    HostCheck{"neighbour", CheckNeighbours},
                                    HostCheck{"ecn", CheckEcn},
                                    HostCheck{"pfc", CheckPfc},
                                    HostCheck{"counters", CheckCounters},
                                    HostCheck{"nccl", CheckNccl},
                                    HostCheck{"library", CheckShim},
                                    HostCheck{"memory_limit", CheckMemoryLimit},
                                    HostCheck{"clock", CheckClock},
                                    HostCheck{"versions", CheckVersions},
                                    HostCheck{"keys", CheckAgentKeys},
                                    HostCheck{"agent", CheckAgent},
                                    HostCheck{"probe_answers", CheckProbeAnswers},
                                    HostCheck{"unobserved", CheckUnobserved}};

}  // namespace

void CheckHost(const HostView& view, Findings& findings) {
  for (const HostCheck& check : kHostChecks) {
    findings.Begin("host", check.name);
    check.run(view, findings);
  }
}

}  // namespace espalier::doctor
