#include "controller/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/io/config_file.h"
#include "controller/config.pb.h"

namespace espalier::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string Or(const std::string& value, const char* fallback) {
  return value.empty() ? fallback : value;
}

std::uint32_t Or(std::uint32_t value, std::uint32_t fallback) {
  return value == 0 ? fallback : value;
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  ControllerConfig file;
  const Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return tl::unexpected<Error>(read.error());
  if (file.topology_file().empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: topology_file is missing (write topology_file: \"FILE\")", path));
  }
  const Result<LogLevel> level = ParseLogLevel(Or(file.log_level(), "info"));
  if (!level) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: log_level: {}", path, level.error().message));
  }
  Configuration config;
  config.topology_file = file.topology_file();
  config.listen = Or(file.listen(), "tcp://127.0.0.1:7400");
  config.state_file = Or(file.state_file(), "/var/lib/espalier/store.db");
  config.http.assign(file.http().begin(), file.http().end());
  if (config.http.empty()) config.http.emplace_back("unix:/run/espalier/controller.sock");
  config.log_level = *level;
  ControllerOptions& options = config.options;
  options.heartbeat_interval = milliseconds(Or(file.heartbeat_ms(), 1000));
  options.missed_heartbeats = static_cast<int>(Or(file.missed_heartbeats(), 3));
  options.lease = seconds(Or(file.lease_seconds(), 600));
  options.verify_interval = milliseconds(Or(file.verify_interval_ms(), 1000));
  options.fabric_hashes_protocol = !file.hash_ignores_protocol();
  options.fabric_hashes_qpn = file.hash_uses_qpn();
  const std::string algorithm = Or(file.algorithm(), "optimal");
  if (algorithm != "optimal" && algorithm != "greedy") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: algorithm: \"{}\" (it is optimal or greedy)", path, algorithm));
  }
  options.algorithm = algorithm == "optimal" ? Algorithm::kOptimal : Algorithm::kGreedy;
  if (file.has_moves_per_start()) options.moves_per_start = file.moves_per_start();
  if (file.has_moved_bytes_per_start()) {
    options.moved_bytes_per_start = static_cast<std::int64_t>(std::min<std::uint64_t>(
        file.moved_bytes_per_start(), std::numeric_limits<std::int64_t>::max()));
  }
  options.limit_rates = file.limit_rates();
  if (file.has_plan_ahead()) options.plan_ahead = file.plan_ahead();
  options.learner.max_probes_per_second = Or(file.max_probes_per_second(), 20'000);
  return config;
}

}  // namespace espalier::controller
