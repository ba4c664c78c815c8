#include "controller/telemetry/daemon/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
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

// The switch of this id. Errors of these: what is wrong with the field, in words.
tl::expected<fabric::NodeId, std::string> FindSwitch(const fabric::Topology& topology,
                                                     const std::string& id) {
  const auto node = topology.FindNode(id);
  if (node && topology.node(*node).kind == fabric::NodeKind::kSwitch) return *node;
  return tl::unexpected(fmt::format("the topology file has no switch \"{}\" (give its id)", id));
}

tl::expected<Exporter, std::string> ReadExporter(const fabric::Topology& topology,
                                                 const std::string& text) {
  const std::vector<std::string> words = WordsOf(text);
  if (words.size() < 2 || words.size() > 3) {
    return tl::unexpected(fmt::format("\"{}\" is not \"SWITCH AGENT [SOURCE]\"", text));
  }
  const auto node = FindSwitch(topology, words[0]);
  if (!node) return tl::unexpected(node.error());
  const Result<IpAddress> agent = IpAddress::Parse(words[1]);
  if (!agent) return tl::unexpected(fmt::format("{}: {}", text, agent.error().message));
  const Result<IpAddress> source = IpAddress::Parse(words.back());
  if (!source) return tl::unexpected(fmt::format("{}: {}", text, source.error().message));
  return Exporter{.node = *node, .agent = *agent, .source = *source, .ports = {}};
}

tl::expected<Poll, std::string> ReadPoll(const fabric::Topology& topology,
                                         const std::string& text) {
  Result<std::vector<std::string>> words = SplitWords(text);
  if (!words) return tl::unexpected(fmt::format("{}: {}", text, words.error().message));
  if (words->size() < 3) {
    return tl::unexpected(fmt::format("\"{}\" is not \"SWITCH READER TARGET\"", text));
  }
  const auto node = FindSwitch(topology, words->front());
  if (!node) return tl::unexpected(node.error());
  const PortReader* const reader = FindPortReader((*words)[1]);
  if (reader == nullptr) {
    std::vector<std::string_view> names;
    for (const PortReader& one : PortReaders()) names.push_back(one.name);
    return tl::unexpected(fmt::format("there is no reader \"{}\" (use one of {})", (*words)[1],
                                      fmt::join(names, ", ")));
  }
  words->erase(words->begin(), words->begin() + 2);
  Result<PollTarget> target = ParsePollTarget(*words);
  if (!target) return tl::unexpected(target.error().message);
  return Poll{.node = *node, .reader = reader, .target = std::move(*target), .ports = {}};
}

// The port of this number or name, at which `out` leaves the switch.
Exporter::Port PortOf(const std::string& word, fabric::DirectedLink out) {
  Exporter::Port port{.index = 0, .out = out};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), port.index);
  const bool is_number = error == std::errc() && std::to_string(port.index) == word;
  if (port.index == 0 || !is_number) {
    port.index = 0;
    port.name = word;
  }
  return port;
}

// Adds a port to its switch where that sends sFlow or is polled.
tl::expected<void, std::string> AddPort(Configuration& config, const std::string& text) {
  const std::vector<std::string> words = WordsOf(text);
  if (words.size() != 3) {
    return tl::unexpected(fmt::format("\"{}\" is not \"SWITCH PORT LINK\"", text));
  }
  const auto node = FindSwitch(config.topology, words[0]);
  if (!node) return tl::unexpected(node.error());
  const auto out = OutOf(config.topology, *node, words[2]);
  if (!out) return tl::unexpected(fmt::format("{}: {} has no such link", text, words[0]));
  const Exporter::Port added = PortOf(words[1], *out);
  std::vector<std::vector<Exporter::Port>*> tables;
  for (Exporter& exporter : config.exporters) {
    if (exporter.node == *node) tables.push_back(&exporter.ports);
  }
  for (Poll& poll : config.polls) {
    if (poll.node == *node && !added.name.empty()) tables.push_back(&poll.ports);
  }
  if (tables.empty()) {
    return tl::unexpected(fmt::format("{}: {} is no exporter{} (list it as one)", text, words[0],
                                      added.name.empty() ? "" : ", and has no poll"));
  }
  for (std::vector<Exporter::Port>* table : tables) {
    const bool is_taken = std::ranges::any_of(*table, [&](const Exporter::Port& port) {
      if (port.name.empty() != added.name.empty()) return false;
      return port.out == *out || (port.index == added.index && port.name == added.name);
    });
    if (is_taken) return tl::unexpected(fmt::format("{}: this port or link occurs twice", text));
    table->push_back(added);
  }
  return {};
}

// Reads the switches and their ports.
Result<void> ReadSwitches(const std::string& path, const TelemetryConfig& file,
                          Configuration& config) {
  const auto fail = std::bind_front(io::FailField, path);
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
  for (const std::string& text : file.poll()) {
    auto poll = ReadPoll(config.topology, text);
    if (!poll) return fail("poll", poll.error());
    config.polls.push_back(std::move(*poll));
  }
  if (config.exporters.empty() && config.polls.empty()) {
    return fail("exporter",
                "it is missing, and poll, too (add exporter: \"SWITCH AGENT\" or "
                "poll: \"SWITCH READER TARGET\" for each switch)");
  }
  for (const std::string& text : file.port()) {
    const auto added = AddPort(config, text);
    if (!added) return fail("port", added.error());
  }
  config.polling.interval = std::chrono::seconds(file.poll_seconds());
  config.polling.counters_interval =
      std::chrono::seconds(std::max(file.poll_seconds(), file.poll_counters_seconds()));
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
  if (Result<void> switches = ReadSwitches(path, file, config); !switches) {
    return Propagate(switches);
  }
  config.listen = file.listen();
  const Result<io::SocketAddress> listen = io::ParseSocketAddress(config.listen);
  if (!listen || listen->IsUnix()) {
    return fail("listen",
                listen ? "sFlow comes over UDP (give HOST:PORT)" : listen.error().message);
  }
  config.feed.source = config.polls.empty() ? "sflow" : "telemetry";
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
