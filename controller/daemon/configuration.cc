#include "controller/daemon/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/daemon/config_file.h"
#include "common/files/trusted_files.h"
#include "common/identity/key_files.h"
#include "common/net/socket_address.h"
#include "controller/daemon/config.pb.h"
#include "controller/settings/policies.h"

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

// Tokens must not cross the network as plain text unless the configuration allows it explicitly.
Result<void> CheckHttp(const ControllerConfig& file, const std::string& path) {
  const bool has_tls = !file.tls_certificate_file().empty();
  if (has_tls == file.tls_key_file().empty()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: tls_certificate_file and tls_key_file must be set together", path));
  }
  for (const std::string& address : file.http()) {
    if (has_tls || file.insecure_http() || io::IsLocalAddress(address)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: http: \"{}\" would send plain text over the network (set "
                            "tls_certificate_file and tls_key_file, or insecure_http: true)",
                            path, address));
  }
  return {};
}

void SetDetection(const ControllerConfig& file, LinkMonitorOptions& options) {
  if (file.has_detection_max_links()) options.max_links = file.detection_max_links();
  if (file.has_detection_max_tier_percent()) {
    options.max_tier_fraction = file.detection_max_tier_percent() / 100.0;
  }
  options.budget_window = seconds(Or(file.detection_window_seconds(), 60));
}

Result<void> SetLinkTests(const ControllerConfig& file, const std::string& path,
                          LinkTestOptions& options) {
  constexpr std::uint32_t kMostProbes = 1'000;
  constexpr std::uint32_t kMostDscp = 63;
  const std::uint32_t probes =
      file.has_link_test_probes_per_second() ? file.link_test_probes_per_second() : 30;
  const std::uint32_t udp = file.has_link_test_udp_dscp() ? file.link_test_udp_dscp() : 26;
  const std::uint32_t tcp = file.link_test_tcp_dscp();
  for (const auto& [name, value, most] :
       {std::tuple("link_test_probes_per_second", probes, kMostProbes),
        std::tuple("link_test_udp_dscp", udp, kMostDscp),
        std::tuple("link_test_tcp_dscp", tcp, kMostDscp)}) {
    if (value <= most) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {}: {} is not in 0..{}", path, name, value, most));
  }
  options.probes_per_second = probes;
  options.full_queue = std::chrono::microseconds(Or(file.full_queue_us(), 250));
  options.udp_dscp = static_cast<std::uint8_t>(udp);
  options.tcp_dscp = static_cast<std::uint8_t>(tcp);
  return {};
}

// The policies whose values are to be checked.
Result<void> SetPolicies(const ControllerConfig& file, const std::string& path,
                         ControllerOptions& options) {
  for (const auto& [name, text] : {std::pair(kAlgorithm, Or(file.algorithm(), "optimal")),
                                   std::pair(kShares, Or(file.shares(), "exact"))}) {
    const auto value = ParsePolicy(name, text);
    if (!value) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path, value.error().message));
    }
    SetPolicy(options, name, *value);
  }
  return {};
}

Result<void> SetActivity(const ControllerConfig& file, const std::string& path,
                         ControllerOptions& options) {
  if (file.activity() == "connections") {
    options.activity = Activity::kConnections;
  } else if (!file.activity().empty() && file.activity() != "bursts") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: activity: unknown value \"{}\" (give \"bursts\" or "
                            "\"connections\")",
                            path, file.activity()));
  }
  return {};
}

Result<void> SetMode(const ControllerConfig& file, const std::string& path,
                     ControllerOptions& options) {
  options.observes = file.mode() == "observe";
  if (file.mode().empty() || file.mode() == "steer" || options.observes) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: mode: unknown value \"{}\" (give \"steer\" or \"observe\")", path,
                          file.mode()));
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
  if (Result<void> checked = CheckHttp(file, path); !checked) return Propagate(checked);
  Configuration config;
  config.http_options.tls_certificate_file = file.tls_certificate_file();
  config.http_options.tls_key_file = file.tls_key_file();
  config.topology_file = file.topology_file();
  config.listen = Or(file.listen(), "tcp://127.0.0.1:7400");
  config.state_file = Or(file.state_file(), "/var/lib/espalier/store.db");
  config.audit_days = Or(file.audit_days(), 400);
  config.audit_moves = Or(file.audit_moves(), 1'000'000);
  if (file.has_history_bytes()) config.history_bytes = file.history_bytes();
  config.http.assign(file.http().begin(), file.http().end());
  if (config.http.empty())
    config.http.emplace_back("unix:/run/espalier-controller/controller.sock");
  config.key_folder = Or(file.key_folder(), "/etc/espalier/keys");
  config.insecure_plaintext = file.insecure_plaintext();
  config.limits.messages_per_second = Or(file.max_messages_per_second(), 5000);
  config.limits.bytes_per_second = static_cast<double>(
      file.max_bytes_per_second() == 0 ? 64 << 20 : file.max_bytes_per_second());
  config.options.agent_limits = {
      .messages_per_second = config.limits.messages_per_second,
      .bytes_per_second = config.limits.bytes_per_second,
      .entries_per_second = static_cast<double>(
          file.max_entries_per_second() == 0 ? 1'200'000 : file.max_entries_per_second())};
  SetDetection(file, config.options.detection);
  if (auto set = SetLinkTests(file, path, config.options.link_tests); !set) return Propagate(set);
  config.options.max_reports_per_second = Or(file.max_reports_per_second(), 100'000);
  config.log_level = *level;
  ControllerOptions& options = config.options;
  options.heartbeat.interval = milliseconds(Or(file.heartbeat_ms(), 1000));
  options.heartbeat.missed = static_cast<int>(Or(file.missed_heartbeats(), 3));
  options.lease = seconds(Or(file.lease_seconds(), 600));
  options.verification.interval = milliseconds(Or(file.verify_interval_ms(), 1000));
  options.verification.within = seconds(Or(file.verify_all_within_seconds(), 300));
  options.verification.probes_per_second = Or(file.verify_probes_per_second(), 64);
  options.fabric_hashes_protocol = !file.hash_ignores_protocol();
  options.fabric_hashes_qpn = file.hash_uses_qpn();
  if (Result<void> set = SetPolicies(file, path, options); !set) return Propagate(set);
  if (Result<void> set = SetActivity(file, path, options); !set) return Propagate(set);
  if (Result<void> set = SetMode(file, path, options); !set) return Propagate(set);
  if (file.has_moves_per_start()) options.moves_per_start = file.moves_per_start();
  if (file.has_moved_bytes_per_start()) {
    options.moved_bytes_per_start = static_cast<std::int64_t>(std::min<std::uint64_t>(
        file.moved_bytes_per_start(), std::numeric_limits<std::int64_t>::max()));
  }
  if (file.has_limit_rates()) {
    options.limit_rates = file.limit_rates() ? RateLimits::kOn : RateLimits::kOff;
  }
  options.confirm_moves_above = file.confirm_moves_above();
  if (file.has_plan_ahead()) options.plan_ahead = file.plan_ahead();
  if (file.has_balance_splits()) options.balance_splits = file.balance_splits();
  options.learner.max_probes_per_second = Or(file.max_probes_per_second(), 20'000);
  return config;
}

std::vector<std::string> NeedRestart(const Configuration& running, const Configuration& read) {
  std::vector<std::string> fields;
  const auto compare = [&](const char* name, const auto& a, const auto& b) {
    if (a != b) fields.emplace_back(name);
  };
  const ControllerOptions& old = running.options;
  const ControllerOptions& now = read.options;
  compare("topology_file", running.topology_file, read.topology_file);
  compare("listen", running.listen, read.listen);
  compare("state_file", running.state_file, read.state_file);
  compare("audit_days", running.audit_days, read.audit_days);
  compare("audit_moves", running.audit_moves, read.audit_moves);
  compare("history_bytes", running.history_bytes, read.history_bytes);
  compare("http", running.http, read.http);
  compare("tls_certificate_file", running.http_options.tls_certificate_file,
          read.http_options.tls_certificate_file);
  compare("tls_key_file", running.http_options.tls_key_file, read.http_options.tls_key_file);
  compare("key_folder", running.key_folder, read.key_folder);
  compare("insecure_plaintext", running.insecure_plaintext, read.insecure_plaintext);
  compare("heartbeat_ms", old.heartbeat.interval, now.heartbeat.interval);
  compare("missed_heartbeats", old.heartbeat.missed, now.heartbeat.missed);
  compare("hash_ignores_protocol", old.fabric_hashes_protocol, now.fabric_hashes_protocol);
  compare("hash_uses_qpn", old.fabric_hashes_qpn, now.fabric_hashes_qpn);
  compare("detection_max_links", old.detection.max_links, now.detection.max_links);
  compare("detection_max_tier_percent", old.detection.max_tier_fraction,
          now.detection.max_tier_fraction);
  compare("detection_window_seconds", old.detection.budget_window, now.detection.budget_window);
  compare("max_reports_per_second", old.max_reports_per_second, now.max_reports_per_second);
  compare("max_probes_per_second", old.learner.max_probes_per_second,
          now.learner.max_probes_per_second);
  return fields;
}

Result<Keys> ReadKeys(const Configuration& config) {
  Keys keys;
  keys.read = config.options.wall_clock();
  keys.read_steady = std::chrono::steady_clock::now();
  const std::string& folder = config.key_folder;
  if (const std::string& tls_key = config.http_options.tls_key_file; !tls_key.empty()) {
    const Result<std::string> readable = io::ReadSecretFile(tls_key);
    if (!readable) return tl::unexpected<Error>(readable.error());
  }
  if (!config.insecure_plaintext) {
    const Result<identity::KeyFile> own = identity::ReadKeyFile(folder + "/controller.key");
    if (!own) return tl::unexpected<Error>(own.error());
    keys.secret_key = own->keys.secret_key;
    Result<identity::KeyRing> agents = identity::KeyRing::Read(folder + "/agents.pub");
    if (!agents) return Propagate(agents);
    keys.agents = std::move(*agents);
  }
  Result<identity::AccessTokens> tokens = identity::AccessTokens::Read(folder + "/tokens");
  if (tokens) {
    keys.tokens = std::move(*tokens);
  } else if (tokens.error().code != ErrorCode::kNotFound) {
    return Propagate(tokens);
  }
  return keys;
}

}  // namespace espalier::controller
