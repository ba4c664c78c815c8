#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/dpdk/datapath.h"
#include "agent/dpdk/flow_control.h"
#include "common/base/log.h"
#include "common/base/result.h"

namespace espalier::dpdk {

// What espalier-dpdk runs with: the file's fields (agent/dpdk/config.proto) or their defaults.
struct Configuration {
  std::vector<std::string> eal;
  DatapathOptions datapath;
  FlowControlOptions control;
  std::string http;
  LogLevel log_level = LogLevel::kInfo;
  bool offloads = false;            // rules for the device
  std::uint32_t offload_group = 0;  // of them
};

// Errors: kInvalidArgument "FILE:LINE:COL: what" for text that is no configuration, "FILE: FIELD:
// what" for a value out of range or missing; those of io::ReadConfigFile.
Result<Configuration> ReadConfiguration(const std::string& path);

}  // namespace espalier::dpdk
