#include "agent/engine/configuration.h"

#include <cstdint>
#include <functional>

#include "agent/engine/config.pb.h"
#include "agent/local/espalier_agent.h"
#include "agent/local/rank_plan_protocol.h"
#include "common/daemon/config_file.h"
#include "common/net/socket_address.h"

namespace espalier::engine {
namespace {

using io::Or;

void SetCount(std::size_t& limit, std::uint32_t value) {
  if (value != 0) limit = value;
}

void SetMebibytes(std::size_t& limit, std::uint32_t value) {
  if (value != 0) limit = std::size_t{value} << 20;
}

runtime::OffloadOptions LimitsOf(const EngineConfig& file) {
  runtime::OffloadOptions options;
  SetCount(options.max_sessions, file.max_sessions());
  SetCount(options.max_sessions_per_user, file.max_sessions_per_user());
  SetMebibytes(options.max_shared_bytes_per_session, file.max_shared_mib_per_session());
  SetMebibytes(options.max_shared_bytes_per_user, file.max_shared_mib_per_user());
  SetMebibytes(options.max_shared_bytes, file.max_shared_mib());
  SetMebibytes(options.max_memory_per_session, file.max_memory_mib_per_session());
  SetMebibytes(options.max_memory_per_user, file.max_memory_mib_per_user());
  SetMebibytes(options.max_memory, file.max_memory_mib());
  options.costs_file = file.collective_costs();
  return options;
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  EngineConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = std::bind_front(io::FailField, path);
  const Result<LogLevel> level = ParseLogLevel(Or(file.log_level(), "info"));
  if (!level) return fail("log_level", level.error().message);
  Configuration config;
  config.agent_socket = Or(file.agent_socket(), ESPALIER_AGENT_DEFAULT_SOCKET);
  config.socket = Or(file.socket(), config.agent_socket + agent::kOffloadSocketSuffix);
  config.http = Or(file.http(), "127.0.0.1:9183");
  if (const auto checked = io::CheckMetricsAddress(config.http, file.insecure_http()); !checked) {
    return fail("http", checked.error().message);
  }
  config.user = file.user();
  config.log_level = *level;
  config.offload = LimitsOf(file);
  for (const std::string& text : file.network()) {
    const auto network = IpPrefix::Parse(text);
    if (!network) return fail("network", network.error().message);
    config.offload.networks.push_back(*network);
  }
  return config;
}

}  // namespace espalier::engine
