#pragma once

#include <string>
#include <vector>

#include "collective/runtime/offload/offload_service.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/daemon/config_file.h"

namespace espalier::engine {

// The configuration of espalier-engine: the file's fields (agent/engine/config.proto) or their
// defaults.
struct Configuration {
  std::string socket;
  std::string agent_socket;
  std::string http;
  std::string user;  // empty: the user that started it
  LogLevel log_level = LogLevel::kInfo;
  runtime::OffloadOptions offload;        // except the authority
  std::vector<io::OptionInForce> fields;  // of the file, with their defaults
};

// Errors: kInvalidArgument "FILE:LINE:COL: what" for text that does not parse, "FILE: FIELD: what"
// for a value out of range; those of io::ReadConfigFile.
Result<Configuration> ReadConfiguration(const std::string& path);

}  // namespace espalier::engine
