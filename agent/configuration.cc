#include "agent/configuration.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/config.pb.h"
#include "agent/local/espalier_agent.h"
#include "common/io/config_file.h"

namespace espalier::agent {
namespace {

std::string Or(const std::string& value, const std::string& fallback) {
  return value.empty() ? fallback : value;
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Replaces a default where the file says something else.
template <typename Unit>
void Set(Duration& option, std::uint32_t value) {
  if (value != 0) option = Unit(value);
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  AgentConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = [&path](std::string_view field, std::string_view what) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}: {}", path, field, what));
  };
  const Result<LogLevel> level = ParseLogLevel(Or(file.log_level(), "info"));
  if (!level) return fail("log_level", level.error().message);
  if (file.probe_ttl() > 255) return fail("probe_ttl", "not 1 to 255");

  Configuration config;
  AgentOptions& options = config.options;
  options.name = Or(file.name(), HostName());
  const bool is_printable = std::all_of(options.name.begin(), options.name.end(),
                                        [](char c) { return c > 0x20 && c <= 0x7e; });
  if (options.name.empty() || options.name.size() > wire::kMaxNameBytes || !is_printable) {
    return fail("name", fmt::format("not 1 to {} visible characters", wire::kMaxNameBytes));
  }
  config.controller = Or(file.controller(), "tcp://127.0.0.1:7400");
  config.local_socket = Or(file.local_socket(), ESPALIER_AGENT_DEFAULT_SOCKET);
  config.nics.assign(file.nic().begin(), file.nic().end());
  config.http = Or(file.http(), "127.0.0.1:9181");
  config.log_level = *level;
  config.probing = !file.no_probing();
  Set<std::chrono::milliseconds>(options.reporter.progress_interval, file.report_interval_ms());
  Set<std::chrono::seconds>(options.lease, file.lease_seconds());
  Set<std::chrono::milliseconds>(options.guard.dead_after, file.dead_after_ms());
  Set<std::chrono::milliseconds>(options.guard.redraw_interval, file.redraw_interval_ms());
  if (file.elephant_bytes() != 0) options.meter.elephant_bytes = file.elephant_bytes();
  if (file.probe_ttl() != 0) options.guard.probe_ttl = static_cast<std::uint8_t>(file.probe_ttl());
  if (file.max_probes_per_second() != 0) {
    options.prober.max_probes_per_second = file.max_probes_per_second();
  }
  return config;
}

}  // namespace espalier::agent
