#include "controller/api/actions/probe_action.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "common/files/json_writer.h"
#include "controller/api/actions/sprayed_loads.h"
#include "controller/api/views/flow_view.h"

namespace espalier::controller {
namespace {

using io::JsonWriter;

constexpr std::size_t kUsualPorts = 8;

std::string Parameter(const io::HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

// An optional number in a range.
Result<std::optional<std::size_t>> Number(const io::HttpRequest& request, const std::string& name,
                                          std::size_t most) {
  const std::string text = Parameter(request, name);
  if (text.empty()) return std::nullopt;
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end && number >= 1 && number <= most) return number;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: invalid value (give a whole number from 1 to {})", name, most));
}

Result<OperatorProbes::Request> ParseProbe(const io::HttpRequest& request) {
  OperatorProbes::Request asked{.source = Parameter(request, "source"),
                                .destination = Parameter(request, "destination"),
                                .ports = {}};
  const auto port = Number(request, "port", UINT16_MAX);
  if (!port) return tl::unexpected<Error>(port.error());
  const auto count = Number(request, "ports", OperatorProbes::kMaxPorts);
  if (!count) return tl::unexpected<Error>(count.error());
  const std::size_t first = port->value_or(fabric::kFirstRocePort);
  asked.ports =
      SpreadPorts(count->value_or(*port ? 1 : kUsualPorts), static_cast<std::uint16_t>(first));
  return asked;
}

std::string_view StateOf(const ProbedPort& port, std::size_t hops) {
  if (port.hops_answered == 0) return "SILENT";
  if (!port.path) return "AMBIGUOUS";
  return port.hops_answered < hops ? "PARTIAL" : "COMPLETE";
}

// The flow label from which RDMA devices derive this source port (rdma_flow_label_to_udp_sport of
// Linux, include/rdma/ib_verbs.h).
int FlowLabelOf(std::uint16_t port) {
  return port >= fabric::kFirstRocePort ? port - fabric::kFirstRocePort : 0;
}

void WritePort(JsonWriter& json, const State& state, const ProbedPair& pair,
               const ProbedPort& port) {
  const auto paths = state.paths.Between(pair.source_leaf, pair.destination_leaf);
  const auto& hops = paths.front().hops;
  const fabric::PortKey key{.source = pair.source, .destination = pair.destination};
  const auto known = state.path_map.Find(key, port.port);
  const fabric::Path* const path = port.path ? &paths[port.path->Index()] : nullptr;
  json.BeginObject();
  json.Key("port").Integer(port.port);
  json.Key("flow_label").Integer(FlowLabelOf(port.port));
  const bool is_complete = path != nullptr && port.hops_answered >= hops.size();
  // 0: the port must not be used; a link of its path is down or drained, or not all are known.
  json.Key("weight").Double(is_complete ? WeightOf(state, *path) : 0);
  json.Key("state").String(StateOf(port, hops.size()));
  json.Key("via").String(path != nullptr ? fabric::ViaNames(state.topology, *path) : "");
  json.Key("links").BeginArray();
  if (path != nullptr) {
    for (const fabric::DirectedLink hop : path->hops) {
      json.String(state.topology.link(hop.link).id);
    }
  }
  json.EndArray();
  json.Key("hops").Integer(static_cast<std::int64_t>(hops.size()));
  json.Key("hops_answered").Integer(port.hops_answered);
  const bool stops = path != nullptr && port.hops_answered < path->hops.size();
  json.Key("silent_from")
      .String(stops ? state.topology.DirectionName(path->hops[port.hops_answered]) : "");
  json.Key("rtt_us").Integer(port.rtt_us);
  json.Key("known_via")
      .String(known ? fabric::ViaNames(state.topology, paths[known->path.Index()]) : "");
  json.Key("known_trust").String(known ? TrustName(known->trust) : "UNKNOWN");
  json.EndObject();
}

std::string ProbeView(const State& state, const ProbedPair& pair) {
  JsonWriter json;
  json.BeginObject();
  json.Key("source").String(state.topology.node(pair.source).id);
  json.Key("destination").String(state.topology.node(pair.destination).id);
  json.Key("paths").Integer(static_cast<std::int64_t>(
      state.paths.Between(pair.source_leaf, pair.destination_leaf).size()));
  json.Key("ports").BeginArray();
  for (const ProbedPort& port : pair.ports) WritePort(json, state, pair, port);
  json.EndArray();
  json.EndObject();
  return json.Text();
}

}  // namespace

void Probe(Controller& controller, const io::HttpRequest& request,
           std::function<void(Result<std::string>)> done) {
  const auto asked = ParseProbe(request);
  if (!asked) return done(tl::unexpected<Error>(asked.error()));
  // One of both is called, and only once.
  const auto shared = std::make_shared<std::function<void(Result<std::string>)>>(std::move(done));
  auto begun = controller.Probe(*asked, [&controller, shared](Result<ProbedPair> pair) {
    if (!pair) return (*shared)(Propagate(pair));
    (*shared)(ProbeView(controller.state(), *pair));
  });
  if (!begun) (*shared)(Propagate(begun));
}

}  // namespace espalier::controller
