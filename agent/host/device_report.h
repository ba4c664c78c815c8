#pragma once

#include <string>
#include <vector>

#include "common/verbs/path_control.h"
#include "common/verbs/roce_address.h"

namespace espalier::agent {

// What this host can do to choose the paths of the RDMA traffic from one address. The address is
// none for a device without addresses.
struct DeviceReport {
  verbs::RoceAddress address;
  verbs::PathControl control;
};

// Tries every device once: an entry for each address, then one for each device without path
// control. Empty if the host has no RDMA.
std::vector<DeviceReport> ReportDevices();

}  // namespace espalier::agent
