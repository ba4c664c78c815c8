#include "agent/engine/configuration.h"

#include <cstdint>
#include <functional>

#include "agent/engine/config.pb.h"
#include "agent/local/rank_plan_protocol.h"
#include "common/daemon/config_file.h"
#include "common/net/socket_address.h"

namespace espalier::engine {
namespace {

std::size_t Mebibytes(std::uint32_t count) { return std::size_t{count} << 20; }

runtime::OffloadOptions LimitsOf(const EngineConfig& file) {
  runtime::OffloadOptions options;
  options.max_sessions = file.max_sessions();
  options.max_sessions_per_user = file.max_sessions_per_user();
  options.max_shared_bytes_per_session = Mebibytes(file.max_shared_mib_per_session());
  options.max_shared_bytes_per_user = Mebibytes(file.max_shared_mib_per_user());
  options.max_shared_bytes = Mebibytes(file.max_shared_mib());
  options.max_memory_per_session = Mebibytes(file.max_memory_mib_per_session());
  options.max_memory_per_user = Mebibytes(file.max_memory_mib_per_user());
  options.max_memory = Mebibytes(file.max_memory_mib());
  options.costs_file = file.collective_costs();
  return options;
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  EngineConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = std::bind_front(io::FailField, path);
  Configuration config;
  config.agent_socket = file.agent_socket();
  config.socket =
      file.socket().empty() ? config.agent_socket + agent::kOffloadSocketSuffix : file.socket();
  config.http = file.http();
  if (const auto checked = io::CheckMetricsAddress(config.http, file.insecure_http()); !checked) {
    return fail("http", checked.error().message);
  }
  config.user = file.user();
  config.log_level = ParseLogLevel(file.log_level()).value();
  config.fields = io::OptionsInForce(file);
  config.offload = LimitsOf(file);
  for (const std::string& text : file.network()) {
    const auto network = IpPrefix::Parse(text);
    if (!network) return fail("network", network.error().message);
    config.offload.networks.push_back(*network);
  }
  return config;
}

}  // namespace espalier::engine
