#include "agent/host/device_report.h"

#include <utility>

namespace espalier::agent {

std::vector<DeviceReport> ReportDevices() {
  std::vector<DeviceReport> reports;
  for (verbs::RoceAddress& address : verbs::ListRoceAddresses()) {
    const bool is_known = !reports.empty() && reports.back().address.device == address.device &&
                          reports.back().address.port == address.port;
    verbs::PathControl control;
    if (is_known) {
      control = reports.back().control;
    } else if (auto tried = verbs::TryPathControl(address); tried) {
      control = std::move(*tried);
    } else {
      control.why_not = tried.error().message;
    }
    reports.push_back({.address = std::move(address), .control = std::move(control)});
  }
  for (auto& [device, control] : verbs::ListDevicesWithoutPathControl()) {
    reports.push_back({.address = {.device = device}, .control = std::move(control)});
  }
  return reports;
}

}  // namespace espalier::agent
