#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/bus/zmq_dealer_bus.h"
#include "common/daemon/config_file.h"

namespace espalier::agent {

// The configuration of espalier-agent: the file's fields (agent/daemon/config.proto) or their
// defaults.
struct Configuration {
  // Except instance, nics and features that this process may have or not, which it sets.
  AgentOptions options;
  std::string controller;
  std::string local_socket;
  std::optional<uid_t> engine_user;
  std::vector<std::string> nics;
  std::string http;
  std::string key_file;
  std::string controller_keys_file;
  bool insecure_plaintext = false;
  LogLevel log_level = LogLevel::kInfo;
  bool probing = true;
  bool group_queue_pairs = true;
  std::vector<io::OptionInForce> fields;  // of the file, with their defaults
};

// Errors: kInvalidArgument "FILE:LINE:COL: what" for text that does not parse, "FILE: FIELD: what"
// for a value out of range; those of io::ReadConfigFile.
Result<Configuration> ReadConfiguration(const std::string& path);

// Reads the keys that the configuration names; none with insecure_plaintext.
// Errors: kNotFound, with the remedy, if there are none; kPermissionDenied if other users can read
// the secret or change the public keys; kInvalidArgument for a malformed file, and for the key of
// another agent.
Result<std::optional<io::CurveClient>> ReadKeys(const Configuration& config);

// Applies the file's log level, reconnects with the keys that it names, and logs the names of the
// other options that differ from those of the running agent. An invalid file changes nothing and is
// logged.
void Reload(const std::string& path, const Configuration& running, io::ZmqDealerBus& bus);

}  // namespace espalier::agent
