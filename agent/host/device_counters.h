#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "agent/flows/transport_state.h"

namespace espalier::agent {

// Reads the counters of the RDMA devices of NICs from sysfs (hw_counters). Counters have different
// names in different drivers, and those that a driver does not have count as zero.
// Thread safety: none. Complexity: a read of six files.
class DeviceCounterFiles {
 public:
  explicit DeviceCounterFiles(std::string folder = "/sys/class/infiniband");

  // All zeros if this network device has no RDMA device.
  DeviceCounters Read(const std::string& network_device);
  // The requests that it has received again: its peers have not got the acknowledgements. A read of
  // one file.
  std::uint32_t ReadRepeats(const std::string& network_device);

 private:
  // The hw_counters folder of the RDMA device on this network device; "" if there is none.
  const std::string& FolderOf(const std::string& network_device);
  std::string FindFolder(const std::string& network_device) const;

  const std::string folder_;
  std::map<std::string, std::string> folders_;  // by network device
};

}  // namespace espalier::agent
