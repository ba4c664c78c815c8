#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/dpdk/datapath.h"
#include "agent/dpdk/flow_control.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/daemon/config_file.h"

namespace espalier::dpdk {

// The configuration of espalier-dpdk: the file's fields (agent/dpdk/config.proto) or their
// defaults.
struct Configuration {
  std::vector<std::string> eal;
  DatapathOptions datapath;
  FlowControlOptions control;
  std::string http;
  LogLevel log_level = LogLevel::kInfo;
  bool offloads = false;                  // the device gets rules
  std::uint32_t offload_group = 0;        // rte_flow group of the rules
  std::vector<io::OptionInForce> fields;  // of the file, with their defaults
};

// Errors: kInvalidArgument "FILE:LINE:COL: what" for text that does not parse, "FILE: FIELD: what"
// for a value out of range or missing; those of io::ReadConfigFile.
Result<Configuration> ReadConfiguration(const std::string& path);

}  // namespace espalier::dpdk
