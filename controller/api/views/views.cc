#include "controller/api/views/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "common/base/enum_names.h"
#include "common/files/json_writer.h"
#include "controller/api/views/flow_view.h"
#include "controller/api/views/link_view.h"
#include "controller/intents/intent_text.h"
#include "controller/settings/policies.h"
#include "controller/state/fabric_health.h"

namespace espalier::controller {
namespace {

using io::JsonWriter;

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

FabricHealth HealthOf(const Controller& controller, const LoadSummary& loads) {
  return HealthOf(controller.state(), loads.reach,
                  controller.links().health.awaiting_operator().size(),
                  controller.links().Doubts());
}

void WriteHealth(JsonWriter& json, const Controller& controller, const FabricHealth& health) {
  json.Key("health").String(HealthName(health.word()));
  json.Key("health_reasons").BeginArray();
  for (const std::string& reason : health.Reasons()) json.String(reason);
  json.EndArray();
  json.Key("flows_without_path").Integer(health.reach.without_path);
  json.Key("flows_on_dead_links").Integer(health.reach.on_dead_link);
  json.Key("flows_on_drained_links").Integer(health.reach.on_drained_link);
  json.Key("flows_with_unknown_ends").Integer(health.reach.unknown_end);
  json.Key("flows_unsteered").Integer(health.flows_unsteered);
  json.Key("flows_late").Integer(health.flows_late);
  const Sightings& sightings = controller.links().sightings;
  json.Key("flows_seen_as_decided").Integer(static_cast<std::int64_t>(sightings.as_decided()));
  json.Key("flows_seen_elsewhere").Integer(static_cast<std::int64_t>(sightings.elsewhere()));
  json.Key("sprayed_hosts").BeginArray();
  for (const std::string& host : health.sprayed_hosts) json.String(host);
  json.EndArray();
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

}  // namespace

void WriteLoads(JsonWriter& json, const LoadSummary& loads) {
  json.Key("max_load").String(loads.max_load.ToString());
  json.Key("lower_bound").String(loads.lower_bound.ToString());
  json.Key("optimal").Bool(loads.IsOptimal());
  json.Key("load_of").String(loads.are_phases_known ? "BUSIEST_PHASES" : "OPEN_FLOWS");
  json.Key("flows_compared").Integer(loads.compared);
  json.Key("flows_left_out").Integer(loads.left_out.unsteered + loads.left_out.waiting);
  json.Key("paths_unreachable").Bool(loads.left_out.unreachable);
}

std::string HealthView(const Controller& controller) {
  const FabricHealth health =
      HealthOf(controller.state(), CountReach(controller.state()),
               controller.links().health.awaiting_operator().size(), controller.links().Doubts());
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
  WriteHealth(json, controller, HealthOf(controller, loads));
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
      .Integer(static_cast<std::int64_t>(controller.links().health.awaiting_operator().size()));
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
