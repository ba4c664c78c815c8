#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/wall_time.h"
#include "common/bus/zmq_bus.h"
#include "common/http/http.h"
#include "common/identity/access_tokens.h"
#include "common/identity/key_ring.h"
#include "controller/settings/options.h"

namespace espalier::controller {

// The controller's configuration file (controller/daemon/config.proto), checked and with its
// defaults.
struct Configuration {
  std::string topology_file;
  std::string listen;
  std::string state_file;
  std::vector<std::string> http;
  io::HttpServerOptions http_options;
  std::uint32_t audit_days = 400;
  std::uint32_t audit_moves = 1'000'000;
  std::string key_folder;
  bool insecure_plaintext = false;
  io::PeerLimits limits;
  LogLevel log_level = LogLevel::kInfo;
  ControllerOptions options;
};

// Errors: "FILE:LINE:COL: ..." for what is malformed, kNotFound where there is no such file,
// kInvalidArgument for a field that is missing or out of range.
Result<Configuration> ReadConfiguration(const std::string& path);

// The fields that differ and that a running controller cannot change, by their names.
std::vector<std::string> NeedRestart(const Configuration& running, const Configuration& read);

// What the key folder holds.
struct Keys {
  std::string secret_key;  // the controller's
  identity::KeyRing agents;
  identity::AccessTokens tokens;  // none where there is no such file
  // When they were read, by the calendar and by a clock that does not jump.
  WallTime read;
  std::chrono::steady_clock::time_point read_steady;

  // The time by which keys end: a jump of the calendar's clock after they were read ends none.
  WallTime Now() const {
    return read + std::chrono::duration_cast<WallTime::duration>(std::chrono::steady_clock::now() -
                                                                 read_steady);
  }
};
// Errors: kNotFound where there is no key, with the remedy; kPermissionDenied where others can read
// (or, public ones, change) a file; kInvalidArgument "FILE:LINE:COL: what".
// A secret key for TLS is looked at too.
Result<Keys> ReadKeys(const Configuration& config);

}  // namespace espalier::controller
