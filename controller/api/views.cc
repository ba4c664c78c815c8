#include "controller/api/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "common/base/enum_names.h"
#include "common/files/json.h"
#include "controller/api/ended_flow_list.h"
#include "controller/api/flow_view.h"
#include "controller/api/link_loads.h"
#include "controller/api/link_view.h"
#include "controller/intents/intent_text.h"
#include "controller/paths/path_reach.h"
#include "controller/settings/policies.h"
#include "controller/state/fabric_health.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using fabric::LinkId;
using io::JsonWriter;

std::string_view TrustName(fabric::PortTrust trust) {
  static constexpr EnumNames<fabric::PortTrust> kTrustNames({
      {fabric::PortTrust::kPredicted, "PREDICTED"},
      {fabric::PortTrust::kVerified, "VERIFIED"},
      {fabric::PortTrust::kReverify, "REVERIFY"},
  });
  return kTrustNames.NameOf(trust);
}

std::string TimeOf(const Controller& controller, TimePoint time) {
  return FormatWallTime(controller.WallNow() -
                        std::chrono::duration_cast<WallTime::duration>(controller.Now() - time));
}

// What the worst single failure does to loads, if hosts go to their standby paths alone.
void WriteWorstFailure(JsonWriter& json, const Controller& controller) {
  const fabric::Topology& topology = controller.state().topology;
  const Standbys::Worst worst = controller.standbys().WorstFailure();
  std::string failure;
  if (worst.failure) {
    failure = worst.failure->IsLink() ? topology.link(worst.failure->link()).id
                                      : topology.node(worst.failure->node()).id;
  }
  const auto link = fabric::DirectedLink::FromIndex(worst.link);
  json.Key("worst_failure").String(failure);
  json.Key("worst_failure_link").String(worst.failure ? topology.DirectionName(link) : "");
  json.Key("worst_failure_load").Double(worst.load);
}

void WriteLoads(JsonWriter& json, const LoadSummary& loads) {
  json.Key("max_load").String(loads.max_load.ToString());
  json.Key("lower_bound").String(loads.lower_bound.ToString());
  json.Key("optimal").Bool(loads.IsOptimal());
}

FabricHealth HealthOf(const Controller& controller, const LoadSummary& loads) {
  return HealthOf(controller.state(), loads.reach,
                  controller.link_health().awaiting_operator().size(),
                  controller.link_health().tester().Doubts());
}

void WriteHealth(JsonWriter& json, const FabricHealth& health) {
  json.Key("health").String(HealthName(health.word()));
  json.Key("health_reasons").BeginArray();
  for (const std::string& reason : health.Reasons()) json.String(reason);
  json.EndArray();
  json.Key("flows_without_path").Integer(health.reach.without_path);
  json.Key("flows_on_dead_links").Integer(health.reach.on_dead_link);
  json.Key("flows_on_drained_links").Integer(health.reach.on_drained_link);
  json.Key("flows_with_unknown_ends").Integer(health.reach.unknown_end);
  json.Key("flows_unsteered").Integer(health.flows_unsteered);
  json.Key("links_down").Integer(health.links_down);
  json.Key("links_lossy").Integer(health.links_lossy);
  json.Key("hosts").Integer(health.hosts);
  json.Key("hosts_without_agent").Integer(health.hosts_without_agent);
}

void WriteAgent(JsonWriter& json, const State& state, AgentId id) {
  const Agent& agent = state.agents.At(id);
  json.Key("name").String(agent.name);
  json.Key("connected").Bool(agent.peer.has_value());
  json.Key("nics").BeginArray();
  for (const wire::Nic& nic : agent.nics) json.String(nic.address.ToString());
  json.EndArray();
  json.Key("flows").Integer(static_cast<std::int64_t>(state.CountFlowsOf(id)));
  json.Key("generation").Integer(static_cast<std::int64_t>(agent.generation));
  json.Key("acknowledged_generation").Integer(static_cast<std::int64_t>(agent.acked_generation));
}

void WriteEvent(JsonWriter& json, const Controller& controller, const HistoryEvent& event) {
  json.BeginObject();
  json.Key("sequence").Integer(static_cast<std::int64_t>(event.sequence));
  json.Key("time").String(TimeOf(controller, event.time));
  json.Key("kind").String(event.kind);
  json.Key("text").String(event.text);
  json.EndObject();
}

std::string_view ResultName(AuditResult result) {
  static constexpr EnumNames<AuditResult> kResultNames({
      {AuditResult::kRefused, "REFUSED"},
      {AuditResult::kDone, "DONE"},
      {AuditResult::kUnfinished, "UNFINISHED"},
  });
  return kResultNames.NameOf(result);
}

void WriteIntent(JsonWriter& json, std::string_view what, const std::string& id,
                 const Intent& intent) {
  const bool has_value = !std::holds_alternative<StartedJob>(intent.value);
  json.Key("what").String(what);
  json.Key("id").String(id);
  json.Key("value").String(has_value ? FormatIntentValue(intent.value) : "");
  json.Key("actor").String(intent.actor);
  json.Key("since").String(FormatWallTime(intent.since));
  json.Key("until").String(intent.until ? FormatWallTime(*intent.until) : "");
  json.Key("reason").String(intent.reason);
}

// Writes a FlowMove or an AuditMove.
template <typename Move>
void WriteMove(JsonWriter& json, const Move& move) {
  json.BeginObject();
  json.Key("flow").String(move.flow);
  json.Key("job").String(move.job);
  json.Key("from").String(move.from);
  json.Key("to").String(move.to);
  json.EndObject();
}

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

}  // namespace

std::string HealthView(const Controller& controller) {
  const FabricHealth health = HealthOf(controller.state(), CountReach(controller.state()),
                                       controller.link_health().awaiting_operator().size(),
                                       controller.link_health().tester().Doubts());
  return std::string(HealthName(health.word()));
}

std::string StatusView(const Controller& controller) {
  const State& state = controller.state();
  return LiveStatus(controller, FlowStatistics::Take(state), Summarize(state));
}

std::string LiveStatus(const Controller& controller, const FlowStatistics& statistics,
                       const LoadSummary& loads) {
  const State& state = controller.state();
  std::int64_t connected = 0;
  for (std::size_t i = 0; i < state.agents.size(); ++i) {
    connected += state.agents.At(AgentId(static_cast<std::int32_t>(i))).peer ? 1 : 0;
  }
  JsonWriter json;
  json.BeginObject();
  WriteHealth(json, HealthOf(controller, loads));
  json.Key("topology").String(state.topology.name());
  json.Key("version").Integer(state.topology.version());
  json.Key("revision").Integer(static_cast<std::int64_t>(state.revision));
  json.Key("epoch").Integer(static_cast<std::int64_t>(state.epoch));
  json.Key("agents_connected").Integer(connected);
  json.Key("flows").Integer(statistics.flows());
  json.Key("flows_by_status").BeginObject();
  for (const auto status :
       {FlowStatus::kNew, FlowStatus::kAdopting, FlowStatus::kLearning, FlowStatus::kRouted,
        FlowStatus::kLocal, FlowStatus::kFixed, FlowStatus::kUnsteered, FlowStatus::kUnroutable}) {
    json.Key(FlowStatusName(status)).Integer(statistics.Of(status));
  }
  json.EndObject();
  json.Key("unacknowledged_flows").Integer(statistics.unacknowledged());
  json.Key("max_link_flows").Integer(statistics.max_link_flows());
  WriteLoads(json, loads);
  WriteWorstFailure(json, controller);
  json.Key("path_map_pairs").Integer(static_cast<std::int64_t>(state.path_map.KeyCount()));
  json.Key("path_map_ports").Integer(static_cast<std::int64_t>(state.path_map.PortCount()));
  json.Key("failed_links").Integer(static_cast<std::int64_t>(state.intents.failed_links.size()));
  json.Key("drained_links").Integer(static_cast<std::int64_t>(state.intents.drained_links.size()));
  json.Key("failed_nodes").Integer(static_cast<std::int64_t>(state.intents.failed_nodes.size()));
  json.Key("drained_nodes").Integer(static_cast<std::int64_t>(state.intents.drained_nodes.size()));
  json.Key("links_awaiting_operator")
      .Integer(static_cast<std::int64_t>(controller.link_health().awaiting_operator().size()));
  json.EndObject();
  return json.Text();
}

std::string LiveAgent(const State& state, AgentId id) {
  JsonWriter json;
  WriteAgent(json.BeginObject(), state, id);
  json.EndObject();
  return json.Text();
}

std::string AgentView(const Controller& controller, AgentId id) {
  const State& state = controller.state();
  JsonWriter json;
  WriteAgent(json.BeginObject(), state, id);
  json.Key("silent_seconds").Double(SecondsOf(controller.Now() - state.agents.At(id).last_heard));
  json.EndObject();
  return json.Text();
}

std::string PushView(const Controller& controller, const PushedPath& entry) {
  const State& state = controller.state();
  const auto from = state.paths.FindAttachment(entry.source);
  const auto to = state.paths.FindAttachment(entry.destination);
  const auto paths = state.paths.Between(from->leaf, to->leaf);
  JsonWriter json;
  json.BeginObject();
  json.Key("sequence").Integer(static_cast<std::int64_t>(entry.sequence));
  json.Key("time").String(TimeOf(controller, entry.time));
  json.Key("flow").String(state.FlowName(entry.agent, entry.flow));
  json.Key("job").String(*entry.job);
  json.Key("source").String(state.topology.node(entry.source).id);
  json.Key("destination").String(state.topology.node(entry.destination).id);
  json.Key("source_port").Integer(entry.port);
  json.Key("via").String(fabric::ViaNames(state.topology, paths[entry.path.Index()]));
  json.Key("reason").String(ReasonName(entry.reason));
  json.EndObject();
  return json.Text();
}

std::string EventView(const Controller& controller, const HistoryEvent& event) {
  JsonWriter json;
  WriteEvent(json, controller, event);
  return json.Text();
}

std::string LiveEvents(const Controller& controller, std::span<const HistoryEvent> events) {
  JsonWriter json;
  json.BeginArray();
  for (const HistoryEvent& event : events) WriteEvent(json, controller, event);
  json.EndArray();
  return json.Text();
}

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
  WriteFlow(json, state, flow, controller.Now());
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
  json.Key("paths").BeginArray();
  if (flow.source_leaf != flow.destination_leaf) {
    const auto paths = state.paths.Between(flow.source_leaf, flow.destination_leaf);
    const std::vector<std::int64_t> counts = state.CountPaths();
    for (std::size_t i = 0; i < paths.size(); ++i) {
      json.BeginObject();
      json.Key("via").String(fabric::ViaNames(state.topology, paths[i]));
      json.Key("usable").Bool(fabric::IsUsable(state.topology, paths[i]));
      if (IsUnreachable(state.path_map, flow.key, paths,
                        fabric::PathIndex(static_cast<std::int32_t>(i)))) {
        json.Key("unreachable").Bool(true);
      }
      json.Key("chosen").Bool(std::ranges::any_of(flow.subflows, [&](const auto& subflow) {
        return subflow.path && subflow.path->Index() == i;
      }));
      std::int64_t busiest = 0;
      for (const DirectedLink hop : paths[i].hops) {
        busiest = std::max(busiest, counts[hop.Index()]);
      }
      json.Key("busiest_link_flows").Integer(busiest);
      json.Key("links").BeginArray();
      for (const DirectedLink hop : paths[i].hops) {
        json.BeginObject();
        json.Key("direction").String(state.topology.DirectionName(hop));
        json.Key("state").String(LinkStateName(state.topology.link(hop.link).state));
        json.Key("flows").Integer(counts[hop.Index()]);
        WriteBackground(json, "background", controller, hop);
        json.EndObject();
      }
      json.EndArray();
      json.EndObject();
    }
  }
  json.EndArray();
  json.EndObject();
  return json.Text();
}

std::string IntentsView(const Controller& controller) {
  const State& state = controller.state();
  JsonWriter json;
  json.BeginObject();
  json.Key("revision").Integer(static_cast<std::int64_t>(state.revision));
  json.Key("intents").BeginArray();
  for (const IntentKind& kind : IntentKinds()) {
    for (const auto& [id, intent] : state.intents.*kind.intents) {
      json.BeginObject();
      WriteIntent(json, kind.name, id, intent);
      json.EndObject();
    }
  }
  json.EndArray().EndObject();
  return json.Text();
}

std::string PoliciesView(const Controller& controller) {
  const IntentById& intents = controller.state().intents.policies;
  JsonWriter json;
  json.BeginObject();
  json.Key("policies").BeginArray();
  for (const std::string_view name : PolicyNames()) {
    const auto set = intents.find(std::string(name));
    json.BeginObject();
    json.Key("policy").String(name);
    json.Key("value").String(FormatPolicy(PolicyOf(controller.settings().now(), name)));
    json.Key("configured").String(FormatPolicy(PolicyOf(controller.settings().configured(), name)));
    json.Key("set_by").String(set == intents.end() ? "" : set->second.actor);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

std::string AuditView(const std::vector<AuditEntry>& entries) {
  JsonWriter json;
  json.BeginObject().Key("audit").BeginArray();
  for (const AuditEntry& entry : entries) {
    json.BeginObject();
    json.Key("sequence").Integer(static_cast<std::int64_t>(entry.sequence));
    json.Key("time").String(FormatWallTime(entry.time));
    json.Key("actor").String(entry.actor);
    json.Key("action").String(entry.action);
    json.Key("target").String(entry.target);
    json.Key("reason").String(entry.reason);
    json.Key("until").String(entry.until ? FormatWallTime(*entry.until) : "");
    json.Key("result").String(ResultName(entry.result));
    json.Key("detail").String(entry.detail);
    json.Key("revision").Integer(static_cast<std::int64_t>(entry.revision));
    json.Key("moved").Integer(static_cast<std::int64_t>(entry.moves.size()));
    json.Key("moves").BeginArray();
    for (const AuditMove& move : entry.moves) WriteMove(json, move);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

std::string OutcomeView(const ActionOutcome& outcome, bool dry_run) {
  JsonWriter json;
  json.BeginObject();
  json.Key("dry_run").Bool(dry_run);
  json.Key("version").Integer(outcome.version);
  json.Key("revision").Integer(static_cast<std::int64_t>(outcome.revision));
  json.Key("intents").BeginArray();
  for (const IntentChange& change : outcome.intents) {
    json.BeginObject();
    json.Key("change").String(IntentChangeName(change.kind));
    WriteIntent(json, change.what, change.id, change.intent);
    json.EndObject();
  }
  json.EndArray();
  json.Key("moved").Integer(static_cast<std::int64_t>(outcome.moves.size()));
  std::int64_t moved_bytes = 0;
  for (const FlowMove& move : outcome.moves) moved_bytes += move.bytes_in_flight;
  json.Key("moved_bytes").Integer(moved_bytes);
  json.Key("question").String(outcome.question);
  json.Key("forests").Integer(static_cast<std::int64_t>(outcome.forests));
  json.Key("max_load_before").String(outcome.before.max_load.ToString());
  WriteLoads(json, outcome.after);
  json.Key("without_path_before").Integer(outcome.before.reach.without_path);
  json.Key("without_path").Integer(outcome.after.reach.without_path);
  json.Key("on_dead_links_before").Integer(outcome.before.reach.on_dead_link);
  json.Key("on_dead_links").Integer(outcome.after.reach.on_dead_link);
  json.Key("on_drained_links_before").Integer(outcome.before.reach.on_drained_link);
  json.Key("on_drained_links").Integer(outcome.after.reach.on_drained_link);
  json.Key("moves").BeginArray();
  for (const FlowMove& move : outcome.moves) WriteMove(json, move);
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::controller
