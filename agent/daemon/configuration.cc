#include "agent/daemon/configuration.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "agent/daemon/config.pb.h"
#include "agent/local/espalier_agent.h"
#include "common/daemon/config_file.h"
#include "common/identity/key_files.h"
#include "common/net/socket_address.h"

namespace espalier::agent {
namespace {

using io::Or;

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::optional<uid_t> UserOf(const std::string& name) {
  const passwd* const user = getpwnam(name.c_str());
  return user == nullptr ? std::nullopt : std::optional(user->pw_uid);
}

// Replaces a default by the file's value; 0: the file has none.
template <typename Unit>
void Set(Duration& option, std::uint32_t value) {
  if (value != 0) option = Unit(value);
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  AgentConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = std::bind_front(io::FailField, path);
  const Result<LogLevel> level = ParseLogLevel(Or(file.log_level(), "info"));
  if (!level) return fail("log_level", level.error().message);
  if (file.max_probe_ttl() > 255) return fail("max_probe_ttl", "must be 1 to 255");
  for (const std::uint32_t port : file.probe_port()) {
    if (port == 0 || port > 65'535) return fail("probe_port", "must be 1 to 65535");
  }
  if (file.probe_ttl() > 255) return fail("probe_ttl", "must be 1 to 255");

  Configuration config;
  AgentOptions& options = config.options;
  options.name = Or(file.name(), HostName());
  const bool is_printable = std::all_of(options.name.begin(), options.name.end(),
                                        [](char c) { return c > 0x20 && c <= 0x7e; });
  if (options.name.empty() || options.name.size() > wire::kMaxNameBytes || !is_printable) {
    return fail("name", fmt::format("must be 1 to {} visible ASCII characters without spaces",
                                    wire::kMaxNameBytes));
  }
  options.features = {"local",         "collective", "verbs",      "job_user",     "rank_nics",
                      "all_rank_nics", "standby",    "path_links", "rank_programs"};
  config.controller = Or(file.controller(), "tcp://127.0.0.1:7400");
  config.local_socket = Or(file.local_socket(), ESPALIER_AGENT_DEFAULT_SOCKET);
  config.engine_user = UserOf(Or(file.engine_user(), "espalier-engine"));
  if (!file.engine_user().empty() && !config.engine_user) {
    return fail("engine_user",
                fmt::format("this host has no user \"{}\" (create the user, or leave "
                            "the field out)",
                            file.engine_user()));
  }
  config.nics.assign(file.nic().begin(), file.nic().end());
  config.http = Or(file.http(), "127.0.0.1:9181");
  if (const auto checked = io::CheckMetricsAddress(config.http, file.insecure_http()); !checked) {
    return fail("http", checked.error().message);
  }
  config.key_file = Or(file.key_file(), "/etc/espalier/keys/agent.key");
  config.controller_keys_file =
      Or(file.controller_keys_file(), "/etc/espalier/keys/controller.pub");
  config.insecure_plaintext = file.insecure_plaintext();
  config.log_level = *level;
  config.probing = !file.no_probing();
  Set<std::chrono::milliseconds>(options.reporter.progress_interval, file.report_interval_ms());
  Set<std::chrono::seconds>(options.lease, file.lease_seconds());
  Set<std::chrono::milliseconds>(options.guard.dead_after, file.dead_after_ms());
  Set<std::chrono::milliseconds>(options.guard.standby_after, file.standby_after_ms());
  Set<std::chrono::milliseconds>(options.guard.local_reroute_interval,
                                 file.local_reroute_interval_ms());
  Set<std::chrono::milliseconds>(options.meter.edges.idle_after, file.idle_after_ms());
  if (file.elephant_bytes() != 0) options.meter.elephant_bytes = file.elephant_bytes();
  if (file.probe_ttl() != 0) options.guard.probe_ttl = static_cast<std::uint8_t>(file.probe_ttl());
  options.guard.fabric_hashes_qpn = file.fabric_hashes_qpn();
  config.group_queue_pairs =
      !file.fabric_hashes_qpn() && (!file.has_group_queue_pairs() || file.group_queue_pairs());
  if (file.probe_port_size() != 0) {
    options.guard.probe_ports.assign(file.probe_port().begin(), file.probe_port().end());
  }
  if (file.max_probe_ttl() != 0) {
    options.prober.max_ttl = static_cast<std::uint8_t>(file.max_probe_ttl());
  }
  if (file.max_probes_per_second() != 0) {
    options.prober.max_probes_per_second = file.max_probes_per_second();
  }
  return config;
}

Result<std::optional<io::CurveClient>> ReadKeys(const Configuration& config) {
  if (config.insecure_plaintext) return std::nullopt;
  const Result<identity::KeyFile> own = identity::ReadKeyFile(config.key_file);
  if (!own) return tl::unexpected<Error>(own.error());
  if (own->name != config.options.name) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: is the key of {}, but this agent is {} (set name in its "
                            "configuration, or give it its own key)",
                            config.key_file, own->name, config.options.name));
  }
  Result<std::vector<std::string>> trusted =
      identity::ReadControllerKeys(config.controller_keys_file);
  if (!trusted) return Propagate(trusted);
  return io::CurveClient{own->keys, std::move(*trusted)};
}

void Reload(const std::string& path, io::ZmqDealerBus& bus) {
  const Result<Configuration> config = ReadConfiguration(path);
  Result<std::optional<io::CurveClient>> keys =
      config ? ReadKeys(*config) : tl::unexpected<Error>(config.error());
  if (!keys) {
    Log(LogLevel::kError, "event=reload_refused cause=\"{}\"", keys.error().message);
    return;
  }
  SetLogLevel(config->log_level);
  if (*keys) bus.SetKeys(std::move(**keys));
  Log(LogLevel::kInfo, "event=reloaded");
}

}  // namespace espalier::agent
