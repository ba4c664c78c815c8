#include "controller/telemetry/daemon/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/daemon/config_file.h"
#include "common/files/topology_file.h"
#include "common/files/trusted_files.h"
#include "common/net/socket_address.h"
#include "controller/telemetry/daemon/config.pb.h"

namespace espalier::telemetry {
namespace {

using fabric::DirectedLink;

// The direction in which a link leaves the node; none: it does not end there.
std::optional<DirectedLink> OutOf(const fabric::Topology& topology, fabric::NodeId node,
                                  const std::string& link) {
  for (const DirectedLink out : topology.Outgoing(node)) {
    if (topology.link(out.link).id == link) return out;
  }
  return std::nullopt;
}

// The words of a field's value.
std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Errors of these two: what is wrong with the field, in words.
tl::expected<Exporter, std::string> ReadExporter(const fabric::Topology& topology,
                                                 const std::string& text) {
  const std::vector<std::string> words = WordsOf(text);
  if (words.size() < 2 || words.size() > 3) {
    return tl::unexpected(fmt::format("\"{}\" is not \"SWITCH AGENT [SOURCE]\"", text));
  }
  const auto node = topology.FindNode(words[0]);
  if (!node || topology.node(*node).kind != fabric::NodeKind::kSwitch) {
    return tl::unexpected(
        fmt::format("the topology file has no switch \"{}\" (give its id)", words[0]));
  }
  const Result<IpAddress> agent = IpAddress::Parse(words[1]);
  if (!agent) return tl::unexpected(fmt::format("{}: {}", text, agent.error().message));
  const Result<IpAddress> source = IpAddress::Parse(words.back());
  if (!source) return tl::unexpected(fmt::format("{}: {}", text, source.error().message));
  return Exporter{.node = *node, .agent = *agent, .source = *source, .ports = {}};
}

tl::expected<void, std::string> AddPort(const fabric::Topology& topology,
                                        std::vector<Exporter>& exporters, const std::string& text) {
  const std::vector<std::string> words = WordsOf(text);
  std::uint32_t index = 0;
  if (words.size() == 3) std::from_chars(words[1].data(), words[1].data() + words[1].size(), index);
  if (index == 0 || std::to_string(index) != words[1]) {
    return tl::unexpected(fmt::format("\"{}\" is not \"SWITCH NUMBER LINK\"", text));
  }
  const auto exporter = std::ranges::find_if(
      exporters, [&](const Exporter& one) { return topology.node(one.node).id == words[0]; });
  if (exporter == exporters.end()) {
    return tl::unexpected(fmt::format("{}: {} is no exporter (list it as one)", text, words[0]));
  }
  const auto out = OutOf(topology, exporter->node, words[2]);
  if (!out) return tl::unexpected(fmt::format("{}: {} has no such link", text, words[0]));
  const bool is_taken = std::ranges::any_of(exporter->ports, [&](const Exporter::Port& port) {
    return port.index == index || port.out == *out;
  });
  if (is_taken) return tl::unexpected(fmt::format("{}: this number or link occurs twice", text));
  exporter->ports.push_back({index, *out});
  return {};
}

}  // namespace

Result<Configuration> ReadConfiguration(const std::string& path) {
  TelemetryConfig file;
  Result<void> read = io::ReadConfigFile(path, file);
  if (!read) return Propagate(read);
  const auto fail = std::bind_front(io::FailField, path);
  Result<fabric::Topology> topology = io::ReadTopologyFile(file.topology_file());
  if (!topology) return Propagate(topology);
  Configuration config{.topology = std::move(*topology)};
  config.log_level = ParseLogLevel(file.log_level()).value();
  config.fields = io::OptionsInForce(file);
  for (const std::string& text : file.exporter()) {
    auto exporter = ReadExporter(config.topology, text);
    if (!exporter) return fail("exporter", exporter.error());
    for (const Exporter& other : config.exporters) {
      if (other.agent != exporter->agent && other.node != exporter->node) continue;
      return fail("exporter", fmt::format("{}: another one has this switch or agent address (each "
                                          "must have its own)",
                                          text));
    }
    config.exporters.push_back(std::move(*exporter));
  }
  for (const std::string& text : file.port()) {
    const auto added = AddPort(config.topology, config.exporters, text);
    if (!added) return fail("port", added.error());
  }
  config.listen = file.listen();
  const Result<io::SocketAddress> listen = io::ParseSocketAddress(config.listen);
  if (!listen || listen->IsUnix()) {
    return fail("listen",
                listen ? "sFlow comes over UDP (give HOST:PORT)" : listen.error().message);
  }
  config.feed.max_age = std::chrono::seconds(file.max_age_seconds());
  config.most_flows = file.most_flows();
  config.receive_buffer_bytes = file.receive_buffer_bytes();
  config.feed.controller = file.controller();
  config.feed.access.ca_file = file.ca_file();
  if (!file.token_file().empty()) {
    Result<std::string> token = io::ReadSecretFile(file.token_file());
    if (!token) return Propagate(token);
    token->erase(token->find_last_not_of(" \t\r\n") + 1);
    config.feed.access.headers.emplace_back("Authorization", "Bearer " + *token);
  }
  config.http = file.http();
  if (const auto checked = io::CheckMetricsAddress(config.http, file.insecure_http()); !checked) {
    return fail("http", checked.error().message);
  }
  return config;
}

}  // namespace espalier::telemetry
