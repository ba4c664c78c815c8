#include "agent/dpdk/configuration.h"

#include <functional>

#include "agent/dpdk/config.pb.h"
#include "common/daemon/config_file.h"
#include "common/net/socket_address.h"

namespace espalier::dpdk {
Result<Configuration> ReadConfiguration(const std::string& path) {
  DpdkConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = std::bind_front(io::FailField, path);
  if (file.host_port() == file.fabric_port()) {
    return fail("fabric_port", "must be another port than host_port");
  }
  if (file.offload_group() != 0 && file.offload() == DpdkConfig::SOFTWARE) {
    return fail("offload_group", "needs offload: ICRC_CORRECTED_BY_DEVICE");
  }

  Configuration config;
  config.offloads = file.offload() == DpdkConfig::ICRC_CORRECTED_BY_DEVICE;
  config.offload_group = file.offload_group();
  config.log_level = ParseLogLevel(file.log_level()).value();
  config.fields = io::OptionsInForce(file);
  config.eal.assign(file.eal().begin(), file.eal().end());
  config.http = file.http();
  if (const auto checked = io::CheckMetricsAddress(config.http, file.insecure_http()); !checked) {
    return fail("http", checked.error().message);
  }
  config.datapath.host_port = file.host_port();
  config.datapath.fabric_port = file.fabric_port();
  config.datapath.mtu = file.mtu();
  config.datapath.idle_sleep = std::chrono::microseconds(file.idle_sleep_us());
  config.datapath.max_flows = file.max_flows();
  config.control.agent_socket = file.agent_socket();
  config.control.idle_flow = std::chrono::seconds(file.idle_flow_seconds());
  return config;
}

}  // namespace espalier::dpdk
