#pragma once

#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "controller/options.h"

namespace espalier::controller {

// The controller's configuration file (controller/config.proto), checked and with its defaults.
struct Configuration {
  std::string topology_file;
  std::string listen;
  std::string state_file;
  std::vector<std::string> http;
  LogLevel log_level = LogLevel::kInfo;
  ControllerOptions options;
};

// Errors: "FILE:LINE:COL: ..." for what is malformed, kNotFound where there is no such file,
// kInvalidArgument for a field that is missing or out of range.
Result<Configuration> ReadConfiguration(const std::string& path);

}  // namespace espalier::controller
