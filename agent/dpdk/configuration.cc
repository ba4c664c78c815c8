#include "agent/dpdk/configuration.h"

#include <fmt/format.h>

#include <functional>

#include "agent/dpdk/config.pb.h"
#include "common/daemon/config_file.h"
#include "common/net/socket_address.h"

namespace espalier::dpdk {
namespace {

// The agent's limit for the flows of all programs.
constexpr std::uint32_t kMaxFlows = 16'384;
constexpr std::uint32_t kMaxMtu = 9600;

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  DpdkConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = std::bind_front(io::FailField, path);
  const Result<LogLevel> level = ParseLogLevel(io::Or(file.log_level(), "info"));
  if (!level) return fail("log_level", level.error().message);
  constexpr std::string_view kNameIt = "missing (name a port of DPDK, such as \"net_af_packet0\")";
  if (file.host_port().empty()) return fail("host_port", kNameIt);
  if (file.fabric_port().empty()) return fail("fabric_port", kNameIt);
  if (file.host_port() == file.fabric_port()) {
    return fail("fabric_port", "must be another port than host_port");
  }
  if (file.max_flows() > kMaxFlows) {
    return fail("max_flows", fmt::format("{} is too large (at most {}, the limit of the agent)",
                                         file.max_flows(), kMaxFlows));
  }
  if (file.mtu() > kMaxMtu) {
    return fail("mtu", fmt::format("{} is too large (at most {}; leave the field out to keep the "
                                   "port's MTU)",
                                   file.mtu(), kMaxMtu));
  }
  if (file.offload_group() != 0 && file.offload() == DpdkConfig::SOFTWARE) {
    return fail("offload_group", "needs offload: ICRC_CORRECTED_BY_DEVICE");
  }

  Configuration config;
  config.offloads = file.offload() == DpdkConfig::ICRC_CORRECTED_BY_DEVICE;
  config.offload_group = file.offload_group();
  config.log_level = *level;
  config.eal.assign(file.eal().begin(), file.eal().end());
  config.http = io::Or(file.http(), "127.0.0.1:9182");
  if (const auto checked = io::CheckMetricsAddress(config.http, file.insecure_http()); !checked) {
    return fail("http", checked.error().message);
  }
  config.datapath.host_port = file.host_port();
  config.datapath.fabric_port = file.fabric_port();
  config.datapath.mtu = file.mtu();
  config.datapath.idle_sleep = std::chrono::microseconds(file.idle_sleep_us());
  if (file.max_flows() != 0) config.datapath.max_flows = file.max_flows();
  config.control.agent_socket = io::Or(file.agent_socket(), ESPALIER_AGENT_DEFAULT_SOCKET);
  if (file.idle_flow_seconds() != 0) {
    config.control.idle_flow = std::chrono::seconds(file.idle_flow_seconds());
  }
  return config;
}

}  // namespace espalier::dpdk
