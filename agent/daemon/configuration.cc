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
#include "proto/limits.h"

namespace espalier::agent {
namespace {

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::optional<uid_t> UserOf(const std::string& name) {
  const passwd* const user = getpwnam(name.c_str());
  return user == nullptr ? std::nullopt : std::optional(user->pw_uid);
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  AgentConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = std::bind_front(io::FailField, path);
  Configuration config;
  AgentOptions& options = config.options;
  options.name = file.name().empty() ? HostName() : file.name();
  const bool is_printable = std::all_of(options.name.begin(), options.name.end(),
                                        [](char c) { return c > 0x20 && c <= 0x7e; });
  if (options.name.empty() || options.name.size() > wire::kMaxNameBytes || !is_printable) {
    return fail("name", fmt::format("must be 1 to {} visible ASCII characters without spaces",
                                    wire::kMaxNameBytes));
  }
  options.features = {"local",         "collective", "verbs",      "job_user",     "rank_nics",
                      "all_rank_nics", "standby",    "path_links", "rank_programs"};
  config.controller = file.controller();
  config.local_socket = file.local_socket();
  // Only a user that the file names must exist, so that the schema fills in no default.
  config.engine_user = UserOf(file.engine_user().empty() ? "espalier-engine" : file.engine_user());
  if (!file.engine_user().empty() && !config.engine_user) {
    return fail("engine_user",
                fmt::format("this host has no user \"{}\" (create the user, or leave "
                            "the field out)",
                            file.engine_user()));
  }
  config.nics.assign(file.nic().begin(), file.nic().end());
  config.http = file.http();
  if (const auto checked = io::CheckMetricsAddress(config.http, file.insecure_http()); !checked) {
    return fail("http", checked.error().message);
  }
  config.key_file = file.key_file();
  config.controller_keys_file = file.controller_keys_file();
  config.insecure_plaintext = file.insecure_plaintext();
  config.log_level = ParseLogLevel(file.log_level()).value();
  config.probing = !file.no_probing();
  using std::chrono::milliseconds;
  options.reporter.progress_interval = milliseconds(file.report_interval_ms());
  options.lease = std::chrono::seconds(file.lease_seconds());
  options.guard.dead_after = milliseconds(file.dead_after_ms());
  options.guard.standby_after = milliseconds(file.standby_after_ms());
  options.guard.local_reroute_interval = milliseconds(file.local_reroute_interval_ms());
  options.guard.probe_ttl = static_cast<std::uint8_t>(file.probe_ttl());
  options.guard.fabric_hashes_qpn = file.fabric_hashes_qpn();
  options.guard.probe_ports.assign(file.probe_port().begin(), file.probe_port().end());
  options.meter.edges.idle_after = milliseconds(file.idle_after_ms());
  options.meter.elephant_bytes = file.elephant_bytes();
  options.prober.max_ttl = static_cast<std::uint8_t>(file.max_probe_ttl());
  options.prober.max_probes_per_second = file.max_probes_per_second();
  config.group_queue_pairs = !file.fabric_hashes_qpn() && file.group_queue_pairs();
  config.fields = io::OptionsInForce(file);
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

void Reload(const std::string& path, const Configuration& running, io::ZmqDealerBus& bus) {
  const Result<Configuration> config = ReadConfiguration(path);
  Result<std::optional<io::CurveClient>> keys =
      config ? ReadKeys(*config) : tl::unexpected<Error>(config.error());
  if (!keys) {
    Log(LogLevel::kError, "event=reload_refused cause=\"{}\"", keys.error().message);
    return;
  }
  SetLogLevel(config->log_level);
  if (*keys) bus.SetKeys(std::move(**keys));
  const std::vector<std::string> others = io::NeedRestart(running.fields, config->fields);
  Log(LogLevel::kInfo, "event=reloaded need_restart={}",
      others.empty() ? "none" : fmt::format("{}", fmt::join(others, ",")));
}

}  // namespace espalier::agent
