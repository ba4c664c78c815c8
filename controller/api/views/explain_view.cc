#include "controller/api/views/explain_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/files/json_writer.h"
#include "controller/api/views/ended_flow_view.h"
#include "controller/api/views/flow_view.h"
#include "controller/api/views/link_view.h"
#include "controller/api/views/views.h"
#include "controller/paths/models/path_reach.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using io::JsonWriter;

struct NamedFlow {
  ShownFlow flow;
  std::optional<FlowSlot> slot;  // none: the flow is an edge of a forest
};

// The flow named by its ends, "h0>h4", and if there are several, "h0>h4#2" for the second one.
// These names stay the same when a job closes its connections and opens them again. O(flows).
std::optional<NamedFlow> FindFlowBetween(const State& state, const std::string& name,
                                         std::size_t arrow) {
  const std::size_t mark = std::min(name.find('#', arrow), name.size());
  const std::string source = name.substr(0, arrow);
  const std::string destination = name.substr(arrow + 1, mark - arrow - 1);
  std::uint64_t number = 1;
  if (mark < name.size()) number = std::strtoull(name.c_str() + mark + 1, nullptr, 10);
  const auto is_meant = [&](const fabric::PortKey& key) {
    return state.topology.node(key.source).id == source &&
           state.topology.node(key.destination).id == destination && --number == 0;
  };
  for (std::size_t i = 0; i < state.agents.size(); ++i) {
    for (const FlowSlot slot : state.flows.OfAgent(AgentId(static_cast<std::int32_t>(i)))) {
      const ShownFlow flow = Show(state, slot);
      if (flow.reach != Reach::kUnknownEnd && is_meant(flow.key)) return NamedFlow{flow, slot};
    }
  }
  for (const auto& [edge, reservation] : state.edges.all()) {
    if (is_meant(reservation.key)) return NamedFlow{Show(state, edge, reservation), std::nullopt};
  }
  return std::nullopt;
}

std::optional<NamedFlow> FindFlow(const State& state, const std::string& name) {
  const std::size_t arrow = name.find('>');
  if (arrow != std::string::npos) return FindFlowBetween(state, name, arrow);
  const std::size_t colon = name.rfind(':');
  const auto agent = state.agents.FindByName(name.substr(0, colon));
  if (!agent || colon == std::string::npos) return std::nullopt;
  const wire::LocalFlowId number(std::strtoull(name.c_str() + colon + 1, nullptr, 10));
  if (state.FlowName(*agent, number) != name) return std::nullopt;
  const auto slot = state.flows.Find(*agent, number);
  if (slot) return NamedFlow{Show(state, *slot), slot};
  const EdgeName edge{*agent, number};
  const EdgeReservation* const found = state.edges.Find(edge);
  if (found == nullptr) return std::nullopt;
  return NamedFlow{Show(state, edge, *found), std::nullopt};
}

// Writes the links of a path with their states, flows and background loads.
void WriteHops(JsonWriter& json, const Controller& controller, const fabric::Path& path,
               std::span<const std::int64_t> counts, std::span<const std::int64_t> loads) {
  const fabric::Topology& topology = controller.state().topology;
  json.Key("links").BeginArray();
  for (const DirectedLink hop : path.hops) {
    json.BeginObject();
    json.Key("direction").String(topology.DirectionName(hop));
    json.Key("state").String(LinkStateName(topology.link(hop.link).state));
    json.Key("flows").Integer(counts[hop.Index()]);
    json.Key("load").String(LoadText(controller.state(), loads, hop));
    WriteBackground(json, "background", controller, hop);
    json.EndObject();
  }
  json.EndArray();
}

// Writes all paths between the leaves of a flow.
void WriteCandidates(JsonWriter& json, const Controller& controller, const ShownFlow& flow) {
  const State& state = controller.state();
  json.Key("paths").BeginArray();
  if (flow.source_leaf != flow.destination_leaf) {
    const auto paths = state.paths.Between(flow.source_leaf, flow.destination_leaf);
    const std::vector<std::int64_t> counts = state.CountPaths();
    const std::vector<std::int64_t> loads = BusiestLoads(state);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const fabric::PathIndex index(static_cast<std::int32_t>(i));
      json.BeginObject();
      json.Key("via").String(fabric::ViaNames(state.topology, paths[i]));
      json.Key("usable").Bool(fabric::IsUsable(state.topology, paths[i]));
      if (IsUnreachable(state.path_map, flow.key, paths, index)) {
        json.Key("unreachable").Bool(true);
      }
      json.Key("chosen").Bool(std::ranges::any_of(
          flow.subflows, [&](const auto& subflow) { return subflow.path == index; }));
      std::int64_t busiest = 0;
      for (const DirectedLink hop : paths[i].hops) {
        busiest = std::max(busiest, counts[hop.Index()]);
      }
      json.Key("busiest_link_flows").Integer(busiest);
      WriteHops(json, controller, paths[i], counts, loads);
      json.EndObject();
    }
  }
  json.EndArray();
}

}  // namespace

Result<std::string> ExplainView(const Controller& controller, const std::string& name) {
  const State& state = controller.state();
  const auto named = FindFlow(state, name);
  if (!named) {
    auto ended = EndedFlowView(controller, name);
    if (ended) return std::move(*ended);
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no flow \"{}\" (`espalier flows` lists those that are open, "
                            "`espalier flows --ended` those that ended last)",
                            name));
  }
  const ShownFlow& flow = named->flow;
  JsonWriter json;
  json.BeginObject();
  json.Key("flow");
  WriteFlow(json, state, flow, AttestationOf(controller, flow), controller.Now());
  const std::uint16_t port = flow.first_port();
  const auto entry = port != 0 ? state.path_map.Find(flow.key, port) : std::nullopt;
  const auto end = named->slot ? controller.predictor().EndOf(*named->slot) : std::nullopt;
  // A flow that takes longer than expected may end at any moment.
  const auto until = [&](TimePoint time) {
    return std::max(0.0, SecondsOf(time - controller.Now()));
  };
  json.Key("ends_known").Bool(end.has_value());
  json.Key("ends_in_seconds").Double(end ? until(end->expected) : 0);
  json.Key("ends_earliest_seconds").Double(end ? until(end->earliest) : 0);
  json.Key("ends_latest_seconds").Double(end ? until(end->latest) : 0);
  json.Key("port_trust").String(entry ? TrustName(entry->trust) : "UNKNOWN");
  json.Key("known_ports").Integer(static_cast<std::int64_t>(state.path_map.Ports(flow.key).size()));
  WriteReturns(json, state, controller.returns(), flow);
  WriteLoads(json, Summarize(state));
  json.Key("theorem").String(ProofText(FindTheorem(state)));
  WriteCandidates(json, controller, flow);
  json.EndObject();
  return json.Text();
}

}  // namespace espalier::controller
