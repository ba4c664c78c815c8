#pragma once

#include <string>
#include <vector>

#include "common/verbs/path_control.h"
#include "common/verbs/roce_address.h"

namespace espalier::agent {

// What this host can do about the paths of its RDMA traffic, by address; then the devices without
// any (whose address is none).
struct DeviceReport {
  verbs::RoceAddress address;
  verbs::PathControl control;
};

// Tries every device once. None where there is no RDMA.
std::vector<DeviceReport> ReportDevices();

}  // namespace espalier::agent
