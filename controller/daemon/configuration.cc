#include "controller/daemon/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/check.h"
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
  options.max_links = file.detection_max_links();
  options.max_tier_fraction = file.detection_max_tier_percent() / 100.0;
  options.budget_window = seconds(file.detection_window_seconds());
}

void SetLinkTests(const ControllerConfig& file, LinkTestOptions& options) {
  options.probes_per_second = file.link_test_probes_per_second();
  options.full_queue = std::chrono::microseconds(file.full_queue_us());
  options.udp_dscp = static_cast<std::uint8_t>(file.link_test_udp_dscp());
  options.tcp_dscp = static_cast<std::uint8_t>(file.link_test_tcp_dscp());
}

// Takes the policies from the fields of their names. Those without a value keep their defaults.
Result<void> SetPolicies(const std::vector<io::OptionInForce>& fields, const std::string& path,
                         ControllerOptions& options) {
  for (const std::string_view name : PolicyNames()) {
    const auto field = std::ranges::find(fields, name, &io::OptionInForce::name);
    ESPALIER_CHECK(field != fields.end());
    if (field->values.empty()) continue;
    std::string text = field->values.front();
    std::erase(text, '"');
    const auto value = ParsePolicy(name, text);
    if (!value) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path, value.error().message));
    }
    SetPolicy(options, name, *value);
  }
  return {};
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  ControllerConfig file;
  const Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return tl::unexpected<Error>(read.error());
  if (Result<void> checked = CheckHttp(file, path); !checked) return Propagate(checked);
  Configuration config;
  config.fields = io::OptionsInForce(file);
  config.http_options.tls_certificate_file = file.tls_certificate_file();
  config.http_options.tls_key_file = file.tls_key_file();
  config.topology_file = file.topology_file();
  config.listen = file.listen();
  config.state_file = file.state_file();
  config.audit_days = file.audit_days();
  config.audit_moves = file.audit_moves();
  config.history_bytes = file.history_bytes();
  config.http.assign(file.http().begin(), file.http().end());
  config.key_folder = file.key_folder();
  config.insecure_plaintext = file.insecure_plaintext();
  config.limits.messages_per_second = file.max_messages_per_second();
  config.limits.bytes_per_second = static_cast<double>(file.max_bytes_per_second());
  config.log_level = ParseLogLevel(file.log_level()).value();
  ControllerOptions& options = config.options;
  options.agent_limits = {.messages_per_second = config.limits.messages_per_second,
                          .bytes_per_second = config.limits.bytes_per_second,
                          .entries_per_second = static_cast<double>(file.max_entries_per_second())};
  SetDetection(file, options.detection);
  SetLinkTests(file, options.link_tests);
  options.max_reports_per_second = file.max_reports_per_second();
  options.heartbeat.interval = milliseconds(file.heartbeat_ms());
  options.heartbeat.missed = static_cast<int>(file.missed_heartbeats());
  options.lease = seconds(file.lease_seconds());
  options.verification.interval = milliseconds(file.verify_interval_ms());
  options.verification.within = seconds(file.verify_all_within_seconds());
  options.verification.probes_per_second = file.verify_probes_per_second();
  options.fabric_hashes_protocol = !file.hash_ignores_protocol();
  options.fabric_hashes_qpn = file.hash_uses_qpn();
  if (Result<void> set = SetPolicies(config.fields, path, options); !set) return Propagate(set);
  if (file.activity() == "connections") options.activity = Activity::kConnections;
  options.observes = file.mode() == "observe";
  options.confirm_moves_above = file.confirm_moves_above();
  options.balance_splits = file.balance_splits();
  options.learner.max_probes_per_second = file.max_probes_per_second();
  return config;
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
