#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/bus/zmq_router_bus.h"
#include "common/daemon/config_file.h"
#include "common/http/http_server.h"
#include "common/identity/access_tokens.h"
#include "common/identity/key_ring.h"
#include "controller/settings/options.h"

namespace espalier::controller {

// The contents of the controller's configuration file (controller/daemon/config.proto), checked,
// with defaults filled in.
struct Configuration {
  std::string topology_file;
  std::string listen;
  std::string state_file;
  std::vector<std::string> http;
  io::HttpServerOptions http_options;
  std::uint32_t audit_days = 400;
  std::uint32_t audit_moves = 1'000'000;
  std::uint64_t history_bytes = 64 << 20;
  std::string key_folder;
  bool insecure_plaintext = false;
  io::PeerLimits limits;
  LogLevel log_level = LogLevel::kInfo;
  ControllerOptions options;
  std::vector<io::OptionInForce> fields;  // of the file, with their defaults
};

// Errors: "FILE:LINE:COL: ..." for a malformed file, kNotFound for a missing file, kInvalidArgument
// for a field that is missing or out of range.
Result<Configuration> ReadConfiguration(const std::string& path);

// The contents of the key folder.
struct Keys {
  std::string secret_key;  // the controller's
  identity::KeyRing agents;
  identity::AccessTokens tokens;  // empty without a tokens file
  // When they were read, by the wall clock and by the steady clock.
  WallTime read;
  std::chrono::steady_clock::time_point read_steady;

  // The time that decides whether a key has expired: a jump of the wall clock after reading expires
  // none.
  WallTime Now() const {
    return read + std::chrono::duration_cast<WallTime::duration>(std::chrono::steady_clock::now() -
                                                                 read_steady);
  }
};
// Also checks that a secret key for TLS is readable. Errors: kNotFound for a missing key, with the
// remedy; kPermissionDenied if others can read a secret file or change a public one;
// kInvalidArgument "FILE:LINE:COL: what".
Result<Keys> ReadKeys(const Configuration& config);

}  // namespace espalier::controller
