#include "controller/telemetry/daemon/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "common/daemon/config_file.h"
#include "common/files/topology_file.h"
#include "common/files/trusted_files.h"
#include "common/net/socket_address.h"
#include "controller/telemetry/daemon/config.pb.h"

namespace espalier::telemetry {
namespace {

using fabric::DirectedLink;
using io::Or;

constexpr std::uint32_t kMostFlows = 16U << 20U;

// The direction in which a link leaves the node; none: it does not end there.
std::optional<DirectedLink> OutOf(const fabric::Topology& topology, fabric::NodeId node,
                                  const std::string& link) {
  for (const DirectedLink out : topology.Outgoing(node)) {
    if (topology.link(out.link).id == link) return out;
  }
  return std::nullopt;
}

// Errors: what is wrong with the field, in words.
tl::expected<Exporter, std::string> ReadExporter(const fabric::Topology& topology,
                                                 const ExporterConfig& file) {
  Exporter exporter;
  const auto node = topology.FindNode(file.node());
  if (!node || topology.node(*node).kind != fabric::NodeKind::kSwitch) {
    return tl::unexpected(
        fmt::format("the topology file has no switch \"{}\" (give its id)", file.node()));
  }
  exporter.node = *node;
  const Result<IpAddress> agent = IpAddress::Parse(file.agent());
  if (!agent)
    return tl::unexpected(fmt::format("agent of {}: {}", file.node(), agent.error().message));
  const Result<IpAddress> source = IpAddress::Parse(Or(file.source(), file.agent()));
  if (!source) {
    return tl::unexpected(fmt::format("source of {}: {}", file.node(), source.error().message));
  }
  exporter.agent = *agent;
  exporter.source = *source;
  std::set<std::uint32_t> indices;
  for (const PortConfig& port : file.port()) {
    const auto out = OutOf(topology, *node, port.link());
    if (!out) {
      return tl::unexpected(fmt::format("{} has no link \"{}\" (espalier links lists them)",
                                        file.node(), port.link()));
    }
    if (port.index() == 0 || !indices.insert(port.index()).second) {
      return tl::unexpected(
          fmt::format("port {} of {} must be above 0 and occur once", port.index(), file.node()));
    }
    exporter.ports.push_back({port.index(), *out});
  }
  return exporter;
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  TelemetryConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = std::bind_front(io::FailField, path);
  Result<fabric::Topology> topology =
      io::ReadTopologyFile(Or(file.topology_file(), "/etc/espalier/topology.json"));
  if (!topology) return Propagate(topology);
  Configuration config{.topology = std::move(*topology)};
  const Result<LogLevel> level = ParseLogLevel(Or(file.log_level(), "info"));
  if (!level) return fail("log_level", level.error().message);
  config.log_level = *level;
  if (file.exporter().empty()) {
    return fail("exporter", "no switch is listed (add exporter { node: \"…\" agent: \"…\" })");
  }
  std::set<IpAddress> agents;
  std::set<std::string> nodes;
  for (const ExporterConfig& of : file.exporter()) {
    auto exporter = ReadExporter(config.topology, of);
    if (!exporter) return fail("exporter", exporter.error());
    if (!agents.insert(exporter->agent).second) {
      return fail("exporter", fmt::format("two switches have the agent address {} (each must have "
                                          "one of its own)",
                                          of.agent()));
    }
    if (!nodes.insert(of.node()).second) {
      return fail("exporter", fmt::format("{} is listed twice", of.node()));
    }
    config.exporters.push_back(std::move(*exporter));
  }
  config.listen = Or(file.listen(), "0.0.0.0:6343");
  const Result<io::SocketAddress> listen = io::ParseSocketAddress(config.listen);
  if (!listen || listen->IsUnix()) {
    return fail("listen",
                listen ? "sFlow comes over UDP (give HOST:PORT)" : listen.error().message);
  }
  if (file.max_age_seconds() > 3'600) return fail("max_age_seconds", "must be 1 to 3600");
  if (file.max_age_seconds() != 0)
    config.feed.max_age = std::chrono::seconds(file.max_age_seconds());
  if (file.most_flows() > kMostFlows) {
    return fail("most_flows", fmt::format("must be 1 to {}", kMostFlows));
  }
  config.most_flows = file.most_flows() == 0 ? 131'072 : file.most_flows();
  config.receive_buffer_bytes =
      file.receive_buffer_bytes() == 0 ? 64U << 20U : file.receive_buffer_bytes();
  config.feed.controller = Or(file.controller(), "unix:/run/espalier-controller/controller.sock");
  config.feed.access.ca_file = file.ca_file();
  if (!file.token_file().empty()) {
    Result<std::string> token = io::ReadSecretFile(file.token_file());
    if (!token) return Propagate(token);
    token->erase(token->find_last_not_of(" \t\r\n") + 1);
    config.feed.access.headers.emplace_back("Authorization", "Bearer " + *token);
  }
  config.http = Or(file.http(), "127.0.0.1:9182");
  if (const auto checked = io::CheckMetricsAddress(config.http, file.insecure_http()); !checked) {
    return fail("http", checked.error().message);
  }
  return config;
}

}  // namespace espalier::telemetry
