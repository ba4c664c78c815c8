#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "common/base/log.h"
#include "common/base/result.h"

namespace espalier::agent {

// What espalier-agent runs with: the file's fields (agent/config.proto) or their defaults.
struct Configuration {
  AgentOptions options;  // but for instance and nics, which the process finds out
  std::string controller;
  std::string local_socket;
  std::vector<std::string> nics;
  std::string http;
  LogLevel log_level = LogLevel::kInfo;
  bool probing = true;
};

// Errors: kInvalidArgument "FILE:LINE:COL: what" for text that is no configuration, "FILE: FIELD:
// what" for a value out of range; those of io::ReadConfigFile.
Result<Configuration> ReadConfiguration(const std::string& path);

}  // namespace espalier::agent
